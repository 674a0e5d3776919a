"""Runs the real `hangdoc watch` beside a test, and always ends what it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hangdoc.demo.stage import MINIATURE

WATCH = (sys.executable, "-m", "hangdoc", "watch")


def environment(**more: str) -> dict[str, str]:
    """Ours, with COLUMNS, without what would reach a real service manager."""
    own = {name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "TERM", "NO_COLOR")}
    return {**own, "COLUMNS": "100", **more}


@contextlib.contextmanager
def watching(
    *words: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """`hangdoc watch WORDS…` with its output in pipes; ended with all of its descendants at the end."""
    process = subprocess.Popen(
        [*WATCH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env or environment(), cwd=cwd
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def objects(text: str) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def until(true: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return bool(true())


def alive(pid: int) -> bool:
    """Whether there is such a process, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(pids: Sequence[int]) -> None:
    """End processes that the test started itself."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def miniature(folder: Path, port: int, *, hang: bool = False) -> tuple[list[str], dict[str, str]]:
    """A command that starts the miniature server below a shell, and its environment.

    The miniature ends with its parent, which here is the shell, not hangdoc.
    """
    model = folder / "model"
    model.mkdir(exist_ok=True)
    for number in range(1, 4):
        (model / f"model-{number:05d}-of-00003.safetensors").write_bytes(bytes(1 << 20))
    server = f"{sys.executable} -m sglang.launch_server --model-path {model} --tp 2 --host 127.0.0.1 --port {port}"
    paths = os.pathsep.join([str(MINIATURE), *filter(None, [os.environ.get("PYTHONPATH")])])
    more = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "MINIATURE_SECONDS": "90"}
    if hang:
        more |= {"MINIATURE_HANG": "1", "MINIATURE_STAMP": str(folder / "stamp")}
    return ["sh", "-c", f"{server}; true"], environment(**more)
