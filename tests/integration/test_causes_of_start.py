"""Launches that hang for a known cause, with real files, locks, sockets and mounts: the cause is named first."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fuse import silent_mount
from plants_of_start import Plant, deaf, own_address, planted

MEETING = iter(range(5000, 6000))  # a port for each, lest two of them be taken for the two nodes of one launch


def nodes(rank: int = 0, host: str = "192.0.2.10") -> tuple[str, ...]:
    """Arguments of one of two nodes."""
    return ("--nnodes", "2", "--node-rank", str(rank), "--dist-init-addr", f"{host}:{next(MEETING)}")


C10D = "[W socket.cpp:752] [c10d] The {} network addresses of ({}, 5000) cannot be retrieved (gai error: -2 - Name)."
SHM = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
HOSTS = "printf '127.0.1.1 %s\\n' gpu01 > $FOLDER/hosts; mount --bind $FOLDER/hosts /etc/hosts"
# A name server that is there and never answers.
RESOLV = (
    "printf 'nameserver 127.9.9.9\\nsearch a.b c.b d.b\\noptions timeout:30 ndots:5\\n' > $FOLDER/r;"
    " mount --bind $FOLDER/r /etc/resolv.conf"
)
BRIDGE = (
    "ip link set lo up; ip link add v0 type veth peer name v1; ip link set v0 arp off; ip link set v1 up;"
    " ip addr add 172.17.0.1/24 dev v0; ip link set v0 up"
)
FULL = (
    "mount -t tmpfs -o size=1m tmpfs $FOLDER/hf; mkdir -p $FOLDER/hf/hub/models--org--m/blobs; cd $FOLDER/hf/hub;"
    " touch -d '1 hour ago' models--org--m/blobs/abc.incomplete; dd if=/dev/zero of=fill bs=4k count=999 2>/dev/null || true"
)
PLANTS = {
    "file-lock-held-outside": Plant("acquire(folder + '/held', soft=False)"),
    "hub-soft-lock-stale": Plant("hf_hub_download(lock=folder + '/hf/hub/.locks/models--org--m/abc.lock')"),
    "xet-download-stalled": Plant("xet_get()"),
    "hub-through-dead-proxy": Plant(
        "hf_hub_download(deaf)", launcher=True, env={"https_proxy": "http://127.0.0.1:3128"}
    ),
    "hub-name-not-resolved": Plant("hf_hub_download(name='huggingface.co')", launcher=True, inside=RESOLV),
    "cluster-dns-slow": Plant(
        "hf_hub_download(name='huggingface.co')",
        launcher=True,
        env={"KUBERNETES_SERVICE_HOST": "192.0.2.1"},
        inside=RESOLV,
    ),
    "hub-mirror-unreachable": Plant("hf_hub_download(deaf)", launcher=True, env={"HF_ENDPOINT": "https://192.0.2.9"}),
    "node-zero-not-listening": Plant("init_process_group()", args=nodes(1)),
    "rendezvous-name-not-resolved": Plant(
        "init_process_group()", args=nodes(1, "gpu77"), log=f"{C10D.format('IPv4', 'gpu77')}\n"
    ),
    "store-clients-missing": Plant(
        "init_process_group()",
        log="Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1"
        " (world_size=8, num_workers_joined=6, timeout=0:30:00)\n",
    ),
    "weights-download-silent": Plant("http_get(folder + '/hf/hub/models--org--m/blobs/new.incomplete')", after=24),
    "download-disk-full": Plant("xet_get()", inside=FULL, log="OSError: [Errno 28] No space left on device\n"),
    "docker-bridge-announced": Plant("new_group(('172.17.0.9', 40733))", args=nodes(), inside=BRIDGE, net=True),
    "derived-port-held": Plant(
        "wait_port_available()",
        launcher=True,
        log="dist_init_port at 30233 is not available in 30 seconds. It is used by process 99\n",
    ),
    "gated-launch-waits": Plant(
        "new_group()", args=("--gated-launch-port", "4000"), log="Gated launch waiting for activation\n"
    ),
    "ipv6-rendezvous": Plant("init_process_group()", args=nodes(0, "[fd00::10]")),
    "store-unreachable": Plant("init_process_group(own)"),
    "gloo-wrong-interface": Plant("new_group(deaf)", args=nodes()),
    "hostname-is-loopback": Plant("new_group()", args=nodes(), env={"HOSTNAME": "gpu01"}, inside=HOSTS),
    "gloo-ifname-pattern": Plant("new_group()", args=nodes(), env={"GLOO_SOCKET_IFNAME": "^lo,docker0"}),
    "socket-ifname-missing": Plant("new_group()", args=nodes(), env={"NCCL_SOCKET_IFNAME": "eth93"}),
    "message-queue-wrong-address": Plant("wait_until_ready(own)", args=nodes()),
    "mesh-sidecar-intercepts": Plant(
        "a = socket.socket(); a.bind(('127.0.0.6', 0)); b = socket.create_server(('127.0.0.1', 0));"
        " a.connect(b.getsockname()); c = b.accept(); new_group()",
        args=nodes(),
    ),
    "headless-service-hides-pods": Plant(
        "init_process_group()",
        args=nodes(1, "llm-0.llm"),
        env={"KUBERNETES_SERVICE_HOST": "192.0.2.1"},
        log=f"{C10D.format('IPv6', 'llm-0.llm')}\n{C10D.format('IPv4', 'llm-0.llm')}\n",
    ),
    "node-rank-not-passed": Plant("init_process_group()", args=nodes(), env={"SLURM_NODEID": "1"}),
    "slurm-started-one-node": Plant(
        "init_process_group()", args=nodes(), env={"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}
    ),
    "shm-too-small": Plant("new_group()", args=("--tp", "2"), inside=SHM),
    "init-port-taken": Plant(
        "init_process_group()",
        log="[E socket.cpp:1023] [c10d] The server socket has failed to listen on any local network address. port: 29500,"
        " useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n",
    ),
    "debugger-prompt": Plant("breakpoint(); new_group()", launcher=True),
}
# Others of which something is true of that plant, too, may come before these.
NOT_FIRST = {
    "download-disk-full",
    "gated-launch-waits",
    "ipv6-rendezvous",
    "cluster-dns-slow",
    "hub-mirror-unreachable",
    "node-zero-not-listening",
    "store-clients-missing",
}


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, str, int]]:
    own = own_address()
    with deaf("127.0.0.1") as here, deaf(own or "127.0.0.1") as there:
        yield here, own, there


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Path]:
    """The folder of the launch, with a lock that we hold, a soft lock of a dead owner, and a download that ended long ago."""
    folder = tmp_path / "launch"
    locks, blobs = folder / "hf/hub/.locks/models--org--m", folder / "hf/hub/models--org--m/blobs"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        try:
            mute.bind(("127.9.9.9", 53))
        except OSError:
            mute.close()
        folder.mkdir()
        with (folder / "held").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for path, text in (
                (locks / "abc.lock", f"999999\n{socket.gethostname()}\n"),
                (blobs / "abc.incomplete", "x"),
            ):
                path.parent.mkdir(parents=True)
                path.write_text(text)
                os.utime(path, (path.stat().st_mtime - 3600,) * 2)
            yield folder


def diagnosed(pid: int) -> Any:
    words = [sys.executable, "-m", "hangdoc", "diagnose", str(pid), "--json", "--timeout", "40"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("cause", sorted(PLANTS))
def test_the_planted_cause_is_named(cause: str, around: Path, ports: tuple[int, str, int]) -> None:
    plant = PLANTS[cause]
    if plant.inside and (os.geteuid() != 0 or shutil.which("unshare") is None):
        pytest.skip("a mount namespace needs root and unshare")
    if "own" in plant.body and not ports[1]:
        pytest.skip("this host has no address but loopback")
    with planted(plant, around, ports) as pid:
        time.sleep(plant.after)
        report = diagnosed(pid)
    assert report["verdict"] in (
        "suspect",
        "hung",
        "slow",
        "undecided",
        "progressing",
    )  # one of two nodes alone may leave it open
    found = [one["id"] for one in report["causes"]]
    assert cause in (found if cause in NOT_FIRST else found[:1]), [report["culprits"], report["undecided"]]


@pytest.mark.slow
def test_a_file_system_that_stopped_answering_is_named(around: Path, ports: tuple[int, str, int]) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    point = around / "fs"
    point.mkdir()
    with silent_mount(point), planted(Plant("os.stat(folder + '/fs/x')"), around, ports) as pid:
        report = diagnosed(pid)
    assert [one["id"] for one in report["causes"]][:1] == ["file-system-silent"], report["undecided"]
