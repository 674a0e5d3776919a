"""Real processes to look at, ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
SOURCE = Path(__file__).parent / "waiting.c"


def compiled(folder: Path) -> Path:
    """The program of waiting.c, built into `folder`; the test is skipped where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    program = folder / "waiting"
    subprocess.run([compiler, "-O1", "-w", "-pthread", SOURCE, "-o", program], check=True, timeout=60)
    return program


@contextlib.contextmanager
def running(command: list[str | Path]) -> Iterator[tuple[int, dict[str, int]]]:
    """(pid, NAME -> TID) of a program that prints these and then "ready"; its whole session is killed afterwards."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        names = {}
        for line in process.stdout:
            name, equals, tid = line.strip().partition("=")
            if not equals:
                break
            names[name] = int(tid)
        yield process.pid, names
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def eventually(look: Callable[[], T | None], seconds: float = 10.0) -> T:
    """What `look` gives as soon as it gives something; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
