"""Delays that end: what a healthy but slow start does, planted where hanglab plants its faults.

First on PYTHONPATH, with hanglab's own folder of the same purpose behind it, which does the wrapping. A delay (a fault with
`secs`) comes once in a process, however often its function is called, and is done as HOWS says where its key `how`, else
its mode, is there: vfork is silent, the others move all the time.
"""

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def _memory(end: float) -> None:
    kept = []
    while time.monotonic() < end:
        kept.append(bytearray(os.urandom(4096)) * 512)  # 2 MB, touched
        time.sleep(0.5)


def _read(end: float) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(1 << 20) * 16)
        while time.monotonic() < end:
            file.seek(0)
            while file.read(1 << 20) and time.monotonic() < end:
                time.sleep(0.1)


def _bar(end: float) -> None:
    began, total = time.monotonic(), 40
    for step in range(total):
        spent = int(time.monotonic() - began)
        clock = f"{spent // 60:02}:{spent % 60:02}<00:30,  1.00s/it"
        print(f"Repacking layers: {100 * step // total:3}%|  | {step}/{total} [{clock}]", flush=True)
        time.sleep(max(0.0, (end - time.monotonic()) / (total - step)))


def _compute(end: float) -> None:
    def one(n: int) -> int:
        return sum(i * i for i in range(n))

    def two(n: int) -> float:
        return sum(math.sqrt(i) for i in range(n))

    def three(n: int) -> str:
        return "".join(sorted(str(i) for i in range(n)))

    while time.monotonic() < end:
        for part in (one, two, three):
            for _ in range(3):
                part(60_000)


def _vfork(end: float) -> None:
    """State D: who calls vfork waits for its child's exec, here until somebody opens the child's FIFO.

    hanglab's own, a call of vfork through ctypes, is for hangs alone: a child that ends has run on its parent's stack,
    and the parent is killed by SIGABRT.
    """
    with tempfile.TemporaryDirectory() as folder:
        fifo = str(Path(folder) / "fifo")
        os.mkfifo(fifo)
        writer = subprocess.Popen(["sh", "-c", 'sleep "$0"; : >"$1"', str(end - time.monotonic()), fifo])
        opened = [(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)]
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, file_actions=opened), 0)
        writer.wait()


HOWS = {"memory": _memory, "read": _read, "bar": _bar, "compute": _compute, "vfork": _vfork}


def _behind() -> Any:
    """The next file of this name on the path: hanglab's."""
    for entry in sys.path:
        path = Path(entry or ".") / "sitecustomize.py"
        if path.parent.resolve() != HERE and path.is_file():
            spec = importlib.util.spec_from_file_location("hanglab_plants", path)
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
    return None


plants = _behind()
if plants is not None:
    _fire = plants._fire
    had: set[str] = set()

    def fire(fault: dict[str, str], args: Any, kwargs: Any) -> None:
        """As hanglab fires a fault; the modes of this file on top."""
        if "secs" not in fault:
            _fire(fault, args, kwargs)
            return
        if fault["at"] in had:
            return
        had.add(fault["at"])
        name = fault.get("how", fault["mode"])
        if name not in HOWS:
            _fire(fault, args, kwargs)
            return
        plants._stamp(mode="slow", how=name, rank=plants._rank(args, kwargs))
        HOWS[name](time.monotonic() + float(fault["secs"]))

    plants._fire = fire
