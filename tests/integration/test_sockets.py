"""Sockets of real processes, in our own and in another network namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_of import end, member, process_of

from hangdoc.model.ask import HealthAsk
from hangdoc.model.sample import Socket, Unseen
from hangdoc.probes import health, netlink, sockets

ME = os.getpid()


def inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


def look(*own: socket.socket) -> tuple[dict[int, Socket], list[Socket]]:
    unseen: list[Unseen] = []
    rows = sockets.read("/proc", {ME: process_of(ME)}, {inode(one) for one in own}, unseen)
    assert unseen == []
    return {row.inode: row for row in rows}, rows


def test_a_connection_not_yet_accepted_points_at_its_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            found, rows = look(listener, client)
            assert (found[inode(listener)].state, found[inode(listener)].recv_queue) == ("LISTEN", 1)
            assert found[inode(client)].remote == f"127.0.0.1:{port}"
            waiting = [row for row in rows if row.inode == 0 and row.local == f"127.0.0.1:{port}"]
            assert [row.state for row in waiting] == ["ESTABLISHED"]


def test_a_listener_that_a_member_opened_since_its_descriptors_were_read_is_left_out() -> None:
    before = {ME: process_of(ME)}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert inode(listener) not in {row.inode for row in sockets.read("/proc", before, set(), [])}
        with member() as other:  # to whom it is somebody else's
            assert inode(listener) in {
                row.inode for row in sockets.read("/proc", {other: process_of(other)}, set(), [])
            }


def test_clocks_and_queues_of_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            client.sendall(b"12345")
            found, _ = look(server)
            mine = found[inode(server)]
            assert (mine.state, mine.recv_queue) == ("ESTABLISHED", 5)
            assert mine.info is not None
            assert mine.info.last_recv_s < 5
            assert found[inode(client)].local == mine.remote  # the far end, although it was not asked for


def test_ipv6() -> None:
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
        listener.listen()
        found, _ = look(listener)
        assert (found[inode(listener)].family, found[inode(listener)].local[:5]) == ("tcp6", "[::1]")


def test_unix_peers_and_queues() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"123")
        found, _ = look(right)
        assert found[inode(right)].peer == inode(left)
        assert found[inode(left)].peer == inode(right)
        assert found[inode(right)].state == "CONNECTED"
        assert found[inode(right)].recv_queue > 0


def test_unix_client_not_yet_accepted_gets_its_listener_as_peer(tmp_path: Path) -> None:
    path = os.path.relpath(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path if len(path) < 100 else f"\0hangdoc-test-{ME}")
        listener.listen()
        client.connect(listener.getsockname())
        found, _ = look(client)
        assert found[inode(client)].peer == inode(listener)
        assert found[inode(listener)].state == "LISTEN"
        assert found[inode(client)].remote == found[inode(listener)].local


def test_without_netlink_the_tables_of_procfs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "NETLINK_SOCK_DIAG", 31)  # no such protocol: the kernel refuses the socket
    left, right = socket.socketpair()
    unseen: list[Unseen] = []
    with left, right, socket.create_server(("127.0.0.1", 0)) as listener:
        rows = sockets.read("/proc", {ME: process_of(ME)}, {inode(left), inode(listener)}, unseen)
        found = {row.inode: row for row in rows}
        assert (found[inode(left)].state, found[inode(left)].peer) == ("CONNECTED", None)
        assert found[inode(listener)].local == f"127.0.0.1:{listener.getsockname()[1]}"
    assert [one.reason for one in unseen] == ["unsupported"]


def test_a_process_that_is_gone() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    unseen: list[Unseen] = []
    ghost = process_of(ME)
    rows = sockets.read("/proc", {child.pid: type(ghost)(child.pid, 1, 0.0, "S", "")}, set(), unseen)
    assert (rows, [one.reason for one in unseen]) == ([], ["gone"])


SERVER = """
import http.server, os, socket
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200 if self.path == '/health' else 404); self.end_headers()
    def log_message(self, *a): pass
s = http.server.HTTPServer(('127.0.0.1', 0), H)
print(s.server_port, os.fstat(s.fileno()).st_ino, flush=True)
s.serve_forever()
"""


@contextlib.contextmanager
def elsewhere() -> Iterator[tuple[int, int, int]]:
    """A server in a network namespace of its own: (pid, port, inode of its listener)."""
    command = [
        shutil.which("unshare") or "unshare",
        "-n",
        sys.executable,
        "-c",
        f"import os\nos.system('ip link set lo up')\n{SERVER}",
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert child.stdout
        words = child.stdout.readline().split()
        if len(words) != 2:
            pytest.skip("no network namespace can be made here")
        yield child.pid, int(words[0]), int(words[1])
    finally:
        end(child)


# In a user namespace the network may be that of the host, which nobody there may enter: once left, there is no way back.
NO_WAY_BACK = """
import os, socket, subprocess, sys
from hangdoc.probes.namespaces import socket_in
child = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE)
child.stdout.readline()
before = os.readlink("/proc/self/ns/net")
assert os.readlink(f"/proc/{child.pid}/ns/net") != before
try:
    socket_in("/proc", child.pid, socket.AF_INET, socket.SOCK_STREAM)
except PermissionError:
    print("refused", os.readlink("/proc/self/ns/net") == before)
child.kill()
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_a_namespace_without_a_way_back_is_not_entered() -> None:
    if subprocess.run(["unshare", "-Ur", "unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespace can be made here")
    path = str(Path(sockets.__file__).parents[2])
    command = ["unshare", "-Ur", sys.executable, "-c", NO_WAY_BACK]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.split() == ["refused", "True"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_another_network_namespace() -> None:
    before = str(Path("/proc/self/ns/net").readlink())
    with elsewhere() as (pid, port, listener):
        unseen: list[Unseen] = []
        rows = sockets.read("/proc", {ME: process_of(ME), pid: process_of(pid)}, {listener}, unseen)
        found = next(row for row in rows if row.inode == listener)
        assert (found.state, found.local, unseen) == ("LISTEN", f"127.0.0.1:{port}", [])
        assert found.net_ns == int(str(Path(f"/proc/{pid}/ns/net").readlink())[5:-1])
        assert str(Path("/proc/self/ns/net").readlink()) == before
        answer = health.Question("/proc", HealthAsk(pid, port, "/health")).answer(2.0)
        if answer.detail == "":  # without `ip` its loopback is down
            assert answer.status == 200
        assert health.Question("/proc", HealthAsk(ME, port, "/health")).answer(2.0).status is None
