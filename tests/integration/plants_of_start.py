"""Small launches that really hang: packages of the names that matter, blocked in real files, locks, sockets and names."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Module -> functions that block in it. Each is the innermost Python frame of the hang, as in the real package.
PACKAGES = {
    "torch/distributed/rendezvous.py": """
import socket, time
def _create_c10d_store(address):
    socket.socket().connect(address)
def wait_for_ranks():
    time.sleep(1000)
""",
    "torch/distributed/distributed_c10d.py": """
import socket, time
from . import rendezvous
def init_process_group(address=None):
    rendezvous._create_c10d_store(address) if address else time.sleep(1000)
def new_group(address=None):
    socket.socket().connect(address) if address else time.sleep(1000)
""",
    "huggingface_hub/file_download.py": """
import fcntl, os, socket, time
import filelock._api
def xet_get():
    time.sleep(1000)
def http_get(path):
    with open(path, "wb", buffering=0) as file:
        for _ in range(1000):
            file.write(bytes(1 << 16))
            time.sleep(0.2)
def hf_hub_download(address=None, lock=None, name=None):
    if name:
        socket.getaddrinfo(name, 443)
    if lock:
        filelock._api.acquire(lock)
    socket.create_connection(address)
""",
    "filelock/_api.py": """
import fcntl, os, time
def acquire(path, soft=True):
    if not soft:
        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
    while os.path.exists(path):
        time.sleep(0.05)
""",
    "sglang/srt/utils/common.py": """
import time
def wait_port_available():
    while True:
        time.sleep(0.5)
""",
    "sglang/srt/server_args.py": """
def prepare_server_args(main, *words):
    main(*words)
""",
    "sglang/srt/distributed/device_communicators/shm_broadcast.py": """
import socket, threading, time
def wait_until_ready(address):
    threading.Thread(target=socket.socket().connect, args=(address,), daemon=True).start()
    time.sleep(1000)
""",
}
LAUNCH = """
import os, socket, subprocess, sys, time
from torch.distributed.distributed_c10d import init_process_group, new_group
from huggingface_hub.file_download import hf_hub_download, http_get, xet_get
from filelock._api import acquire
from sglang.srt.distributed.device_communicators.shm_broadcast import wait_until_ready
from sglang.srt.utils.common import wait_port_available
from sglang.srt.server_args import prepare_server_args
def main(deaf, own, folder):
    {body}
given = ("127.0.0.1", int(os.environ["DEAF"])), (os.environ["OWN"], int(os.environ["OWN_DEAF"])), os.environ["FOLDER"]
if "--rank" in sys.argv:
    main(*given)
if {launcher}:
    prepare_server_args(main, *given)
words = ["sglang::scheduler_TP0", "-S", __file__, "--rank"]
subprocess.Popen(words, executable=sys.executable, stdin=0).wait()
"""


@dataclass(frozen=True)
class Plant:
    """What is planted: the statement that hangs, with `deaf` (an address that answers nobody), `own` (the same, not on
    loopback) and `folder`; further arguments and variables; a shell command that prepares a mount namespace."""

    body: str
    launcher: bool = False  # the launcher hangs, not its scheduler
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    inside: str = ""  # run as root in a mount namespace of its own, before the launch
    net: bool = False  # in a network namespace of its own, too
    log: str = ""  # what it prints first
    after: float = 0.0  # seconds from its start to the look


def own_address() -> str:
    """An address of this host that is not loopback; empty where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
            found: str = probe.getsockname()[0]
        except OSError:
            return ""
    return "" if found.startswith("127.") else found


def children_of(pid: int) -> list[int]:
    """Pids of its children."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def deaf(address: str) -> Iterator[int]:
    """A port that answers nobody: its queue is full, so the kernel drops further packets. Connections stay in SYN_SENT."""
    with contextlib.ExitStack() as open_ones:
        listener = open_ones.enter_context(socket.socket())
        listener.bind((address, 0))
        listener.listen(0)
        for _ in range(4):
            filler = open_ones.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextlib.contextmanager
def planted(plant: Plant, folder: Path, ports: tuple[int, str, int]) -> Iterator[int]:
    """The pid of a launch that hangs. Everything of it is gone afterwards."""
    site = folder / "lib" / "python3" / "site-packages"
    for path, text in PACKAGES.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        for parent in Path(path).parents[:-1]:  # py-spy shortens a file's name by the packages above it
            (site / parent / "__init__.py").touch()
    (site / "sglang" / "launch_server.py").write_text(LAUNCH.format(body=plant.body, launcher=plant.launcher))
    hub = folder / "hf" / "hub"
    (hub / ".locks" / "models--org--m").mkdir(parents=True, exist_ok=True)
    (hub / "models--org--m" / "blobs").mkdir(parents=True, exist_ok=True)
    port, own, own_port = ports
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    env |= {"PYTHONPATH": str(site), "HF_HOME": str(folder / "hf"), "FOLDER": str(folder), "HOSTNAME": "gpu00"}
    env |= {"DEAF": str(port), "OWN": own or "127.0.0.1", "OWN_DEAF": str(own_port), **plant.env}
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", "org/m", "--port", "1", *plant.args]
    if plant.inside:
        words = ["unshare", "-mn" if plant.net else "-m", "sh", "-ec", f'{plant.inside}; exec "$@"', "sh", *words]
    (folder / "log").write_text(plant.log)
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(words, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield child.pid
    finally:
        for pid in (*children_of(child.pid), child.pid):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one on a silent file system ends when that is unmounted
            child.communicate(timeout=5)
