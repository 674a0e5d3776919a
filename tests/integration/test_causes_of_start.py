"""Launches that hang for a known cause, with real files, locks, sockets and mounts: the cause is named first."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.plants_of_start import Plant, deaf, own_address, planted

TWO_NODES = ("--nnodes", "2", "--node-rank", "0", "--dist-init-addr", "192.0.2.10:5000")
C10D = "[W socket.cpp:752] [c10d] The {} network addresses of ({}, 5000) cannot be retrieved (gai error: -2 - Name)."
SHM = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
HOSTS = "printf '127.0.1.1 %s\\n' gpu01 > $FOLDER/hosts; mount --bind $FOLDER/hosts /etc/hosts"
# A name server that is there and never answers.
RESOLV = "echo 'nameserver 127.9.9.9' > $FOLDER/r; echo 'options timeout:30' >> $FOLDER/r; mount --bind $FOLDER/r /etc/resolv.conf"
PLANTS = {
    "file-lock-held-outside": Plant("acquire(folder + '/held', soft=False)"),
    "hub-soft-lock-stale": Plant("hf_hub_download(lock=folder + '/hf/hub/.locks/models--org--m/abc.lock')"),
    "xet-download-stalled": Plant("xet_get()"),
    "hub-through-dead-proxy": Plant("hf_hub_download(deaf)", launcher=True, env={"https_proxy": "http://127.0.0.1:3128"}),
    "hub-name-not-resolved": Plant("hf_hub_download(name='huggingface.co')", launcher=True, inside=RESOLV),
    "store-unreachable": Plant("init_process_group(own)"),
    "gloo-wrong-interface": Plant("new_group(deaf)", args=TWO_NODES),
    "hostname-is-loopback": Plant("new_group()", args=TWO_NODES, env={"HOSTNAME": "gpu01"}, inside=HOSTS),
    "gloo-ifname-pattern": Plant("new_group()", args=TWO_NODES, env={"GLOO_SOCKET_IFNAME": "^lo,docker0"}),
    "socket-ifname-missing": Plant("new_group()", args=TWO_NODES, env={"NCCL_SOCKET_IFNAME": "eth93"}),
    "message-queue-wrong-address": Plant("wait_until_ready(own)", args=TWO_NODES),
    "mesh-sidecar-intercepts": Plant(
        "a = socket.socket(); a.bind(('127.0.0.6', 0)); b = socket.create_server(('127.0.0.1', 0));"
        " a.connect(b.getsockname()); c = b.accept(); new_group()",
        args=TWO_NODES,
    ),
    "headless-service-hides-pods": Plant(
        "init_process_group()",
        args=("--nnodes", "2", "--node-rank", "1", "--dist-init-addr", "llm-0.llm:5000"),
        env={"KUBERNETES_SERVICE_HOST": "192.0.2.1"},
        log=f"{C10D.format('IPv6', 'llm-0.llm')}\n{C10D.format('IPv4', 'llm-0.llm')}\n",
    ),
    "node-rank-not-passed": Plant("init_process_group()", args=TWO_NODES, env={"SLURM_NODEID": "1"}),
    "slurm-started-one-node": Plant("init_process_group()", args=TWO_NODES, env={"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}),
    "shm-too-small": Plant("new_group()", args=("--tp", "2"), inside=SHM),
    "init-port-taken": Plant(
        "init_process_group()",
        log="[E socket.cpp:1023] [c10d] The server socket has failed to listen on any local network address. port: 29500,"
        " useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n",
    ),
    "debugger-prompt": Plant("breakpoint(); new_group()", launcher=True),
}
NOT_FIRST = {"hub-through-dead-proxy", "node-rank-not-passed", "slurm-started-one-node", "debugger-prompt"}  # hints


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
            for path, text in ((locks / "abc.lock", f"999999\n{socket.gethostname()}\n"), (blobs / "abc.incomplete", "x")):
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
        report = diagnosed(pid)
    assert report["verdict"] in ("suspect", "hung", "slow")
    found = [one["id"] for one in report["causes"]]
    assert cause in (found if cause in NOT_FIRST else found[:1]), [report["culprits"], report["undecided"]]
