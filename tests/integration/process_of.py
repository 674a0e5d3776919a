"""A `Process` as the other probes would fill it, and small children for tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hangdoc.model.sample import Fd, Process, Unseen
from hangdoc.probes import environ

WAIT = "import sys, time; sys.stdout.write('on'); sys.stdout.flush(); time.sleep(100)"


def fd_of(number: int, target: str) -> Fd:
    """One descriptor from the text of its link."""
    found = re.match(r"(pipe|socket):\[(\d+)\]", target)
    if found:
        return Fd(number, found.group(1), target, int(found.group(2)))
    kinds = (("/dev/pts/", "terminal"), ("/dev/", "device"), ("/", "file"))
    return Fd(number, next((kind for start, kind in kinds if target.startswith(start)), "other"), target)


def process_of(pid: int) -> Process:
    """The fields that the probes under test look at."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    table = {}
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            table[int(entry.name)] = fd_of(int(entry.name), str(Path(entry.path).readlink()))
        except OSError:
            continue
    status = Path(f"/proc/{pid}/status").read_text()
    nspid = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
    return Process(
        pid=pid,
        ppid=int(stat[1]),
        start=int(stat[19]) / 100,
        state=stat[0],
        comm="",
        nspid=tuple(map(int, nspid.group(1).split())) if nspid else (),
        exe=str(Path(f"/proc/{pid}/exe").readlink()),
        cmdline=tuple(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]),
        fds=table,
    )


def with_environment(pid: int, unseen: list[Unseen]) -> Process:
    """The same with its variables."""
    return replace(process_of(pid), env=environ.read("/proc", pid, unseen))


def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until `true()` is; a test that waits in vain fails."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def state(pid: int) -> str:
    """State letter, empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def python(code: str, **options: object) -> subprocess.Popen[bytes]:
    """A Python child; end it with `end`."""
    return subprocess.Popen([sys.executable, "-S", "-c", code], **options)  # type: ignore[call-overload, no-any-return]


@contextmanager
def member(*words: str, code: str = WAIT, before: tuple[str, ...] = (), **env: str | Path) -> Iterator[int]:
    """A Python child that said "on": with these arguments, and no variables but PATH and these. `before` stands before Python
    on its command line and ends in its exec."""
    child = subprocess.Popen(
        [*before, sys.executable, "-S", "-c", code, *words],
        env={"PATH": os.environ.get("PATH", ""), **{name: str(value) for name, value in env.items()}},
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.read(2) == b"on"
        yield child.pid
    finally:
        end(child)


def end(*children: subprocess.Popen[bytes]) -> None:
    """Kill and collect, and close what was piped."""
    for child in children:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                stream.close()
