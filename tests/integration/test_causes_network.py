"""Known causes that lie in addresses, names and interfaces, in networks of their own, each beside the same launch without the
decisive thing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from causing import Start, expect, free_port, hit_and_near_miss, look, private_network, ranks

pytestmark = pytest.mark.slow


def _interface(name: str, own: str, silent: tuple[str, ...]) -> tuple[str, ...]:
    """An interface with its address; who connects to one of the silent ones gets neither an answer nor a refusal."""
    return (
        f"ip link add {name} type veth peer name {name}-end",
        f"ip addr add {own} dev {name}",
        f"ip link set {name}-end up",
        f"ip link set {name} up",
        *(f"ip neigh add {one} lladdr 02:00:00:00:00:77 dev {name}" for one in silent),
    )


ELSEWHERE = _interface("far0", "10.99.8.1/24", ("10.99.8.53", "10.99.8.77", "10.99.8.80"))
BRIDGE = _interface("docker0", "172.17.0.1/16", ("172.17.0.99",))

STORE = {
    "torch/distributed/rendezvous.py": """
        import socket, time
        def _create_c10d_store(host, port):
            line = socket.socket()
            line.connect((host, port))
            line.recv(1)
        def _tcp_rendezvous_handler(host, port):
            _create_c10d_store(host, port)
        """,
    "torch/distributed/distributed_c10d.py": """
        from torch.distributed.rendezvous import _tcp_rendezvous_handler
        def init_process_group(host, port):
            _tcp_rendezvous_handler(host, port)
        def new_group(host):
            import socket
            with socket.create_connection((host, 5000)) as pair: pair.recv(1)
        """,
}
NODES = ("--nnodes", "2", "--node-rank", "1", "--tp", "2", "--dist-init-addr")
SERVE = "import socket\nserver = socket.create_server(('', 5000))\n"


def joining(host: str, port: int = 5000, before: str = "") -> tuple[str, dict[str, str]]:
    """A rank that joins its group at this address."""
    work = f"from torch.distributed.distributed_c10d import init_process_group as join\njoin({host!r}, {port})"
    code, modules = ranks(before + work)
    return code, {**modules, **STORE}


@pytest.mark.root
@hit_and_near_miss
def test_an_address_to_meet_that_does_not_route(start: Start, found: bool) -> None:
    host = "10.99.8.77" if found else "10.99.8.1"
    code, modules = joining(host, before=SERVE)
    launch = start(code, *NODES, f"{host}:5000", modules=modules, before=private_network(*ELSEWHERE))
    expect(look(launch), "store-unreachable", found)


@pytest.mark.root
@hit_and_near_miss
def test_the_address_of_a_bridge_of_containers(start: Start, found: bool) -> None:
    host = "172.17.0.99" if found else "10.99.8.77"
    code, modules = joining(host)
    launch = start(code, *NODES, f"{host}:5000", modules=modules, before=private_network(*ELSEWHERE, *BRIDGE))
    expect(look(launch), "docker-bridge-announced", found)


HUB = {
    "huggingface_hub/file_download.py": """
        import socket
        def hf_hub_download(name):
            while True:
                try:
                    socket.create_connection((name, 443))
                except OSError:
                    pass
        """
}


@pytest.mark.root
@hit_and_near_miss
def test_names_that_nobody_resolves(start: Start, tmp_path: Path, found: bool) -> None:
    """The near miss knows the address from its own list and gets no answer from there: another known cause."""
    (tmp_path / "resolv.conf").write_text("nameserver 10.99.8.53\noptions timeout:20 attempts:5\n")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n" + ("" if found else "10.99.8.80 huggingface.co\n"))
    mounts = [f"mount --bind {tmp_path / name} /etc/{name}" for name in ("resolv.conf", "hosts")]
    code = "from huggingface_hub.file_download import hf_hub_download as get\nget('huggingface.co')"
    report = look(start(code, modules=HUB, before=private_network(*ELSEWHERE, *mounts)))
    expect(report, "hub-name-not-resolved", found)
    expect(report, "hub-unreachable", not found)


@pytest.mark.root
@hit_and_near_miss
def test_a_host_name_that_leads_to_loopback(start: Start, tmp_path: Path, found: bool) -> None:
    own = "127.0.1.1" if found else "10.99.8.1"
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{own} {socket.gethostname()}\n")
    mounts = f"mount --bind {tmp_path / 'hosts'} /etc/hosts"
    code, modules = ranks(SERVE + "from torch.distributed.distributed_c10d import new_group\nnew_group('10.99.8.1')")
    launch = start(
        code, *NODES, "10.99.8.1:5000", modules={**modules, **STORE}, before=private_network(*ELSEWHERE, mounts)
    )
    expect(look(launch), "hostname-is-loopback", found)


@hit_and_near_miss
def test_an_interface_that_is_not_there(start: Start, found: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code, modules = joining("127.0.0.1", server.getsockname()[1])
        report = look(start(code, modules=modules, env={"GLOO_SOCKET_IFNAME": "eth77" if found else "lo"}))
    expect(report, "socket-ifname-missing", found)


@hit_and_near_miss
def test_a_pattern_where_gloo_wants_a_name(start: Start, found: bool) -> None:
    """NCCL understands the sign, Gloo does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code, modules = joining("127.0.0.1", server.getsockname()[1])
        report = look(start(code, modules=modules, env={f"{'GLOO' if found else 'NCCL'}_SOCKET_IFNAME": "^docker0"}))
    expect(report, "gloo-ifname-pattern", found)


@pytest.mark.root
@hit_and_near_miss
def test_gloo_at_a_loopback_address_of_another_node(start: Start, tmp_path: Path, found: bool) -> None:
    """A listener whose queue is full leaves those who come later without an answer."""
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n10.99.8.1 {socket.gethostname()}\n")
    full = """
        import socket
        server = socket.create_server(("127.0.0.1", 5000), backlog=0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", 5000))
        """
    code, modules = ranks(
        full.replace("\n        ", "\n")
        + "from torch.distributed.distributed_c10d import init_process_group as join\njoin('127.0.0.1', 5000)"
    )
    launch = start(
        code,
        *NODES,
        "10.99.8.1:5000",
        modules={**modules, **STORE},
        env={} if found else {"GLOO_SOCKET_IFNAME": "far0"},
        before=private_network(*ELSEWHERE, f"mount --bind {tmp_path / 'hosts'} /etc/hosts"),
    )
    expect(look(launch), "gloo-wrong-interface", found)


@hit_and_near_miss
def test_a_port_of_the_store_that_is_taken(start: Start, found: bool) -> None:
    store = {
        "torch/distributed/distributed_c10d.py": """
            import socket, time
            def init_process_group(port):
                try:
                    server = socket.create_server(("127.0.0.1", port))
                except OSError as error:
                    print(f"[W socket.cpp] The server socket has failed to bind to 127.0.0.1:{port} "
                          f"(errno: {error.errno} - {error.strerror}).")
                time.sleep(600)
            """
    }
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1] if found else free_port()
        code, modules = ranks(
            f"from torch.distributed.distributed_c10d import init_process_group as join\njoin({port})"
        )
        report = look(start(code, modules={**modules, **store}))
    expect(report, "init-port-taken", found)


@hit_and_near_miss
def test_a_port_that_the_server_waits_for(start: Start, found: bool) -> None:
    waits = """
        import socket, time
        def is_port_available(port):
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                return False
            return True
        def wait_port_available(port):
            while not is_port_available(port): time.sleep(0.1)
        """
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1] if found else free_port()
        code = f"from sglang.srt.network import wait_port_available as wait\nwait({port})\nimport time\ntime.sleep(600)"
        report = look(start(code, modules={"sglang/srt/network.py": waits}))
    expect(report, "derived-port-held", found)


@hit_and_near_miss
def test_a_sidecar_in_between(start: Start, found: bool) -> None:
    """Istio's inbound pass-through has the address 127.0.0.6."""
    host = "127.0.0.6" if found else "127.0.0.1"
    with socket.create_server((host, 0)) as sidecar:
        code, modules = joining(host, sidecar.getsockname()[1])
        expect(look(start(code, modules=modules)), "mesh-sidecar-intercepts", found)


@pytest.mark.root
@hit_and_near_miss
def test_a_message_queue_at_an_address_of_another_host(start: Start, found: bool) -> None:
    queue = f"""
        import socket
        def wait_until_ready():
            line = socket.socket()
            line.connect(({"10.99.8.77" if found else "10.99.8.1"!r}, 5000))
            line.recv(1)
        """
    code, modules = ranks(
        SERVE + "from sglang.srt.distributed.device_communicators.shm_broadcast import wait_until_ready as w\nw()"
    )
    launch = start(
        code,
        *NODES,
        "10.99.8.1:5000",
        modules={**modules, "sglang/srt/distributed/device_communicators/shm_broadcast.py": queue},
        before=private_network(*ELSEWHERE),
    )
    expect(look(launch), "message-queue-wrong-address", found)


@pytest.mark.root
@hit_and_near_miss
def test_a_headless_service_that_does_not_name_pods_that_start(start: Start, tmp_path: Path, found: bool) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 10.99.8.53\noptions timeout:20 attempts:5\n")
    before = private_network(*ELSEWHERE, f"mount --bind {tmp_path / 'resolv.conf'} /etc/resolv.conf")
    work = "import socket\nsocket.getaddrinfo('sglang-0.sglang.default.svc.cluster.local', 5000)\n"
    code, modules = ranks(work)
    env = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"} if found else {}
    launch = start(code, *NODES, "sglang-0.sglang:5000", modules=modules, env=env, before=before)
    expect(look(launch), "headless-service-hides-pods", found)
