"""The agent: questions come as JSON lines on stdin, samples go as JSON lines to stdout, nothing else ever does.

Its first line is `{"hello": 1, …}`, then one `{"sample": …}` or `{"error": …}` for each question. It ends when stdin
ends, also in the middle of a question: keep stdin open until the answer is there.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import signal
import sys
from typing import Any, Callable, Dict, Iterator, List, Set

from .. import __version__
from ..model.ask import Ask
from ..probes import DEEP, PROBES
from . import wire
from .isolate import Hangup, Nursery
from .tick import Ticker

PROTOCOL = 1
_LINE_LIMIT = 4 << 20  # bytes of one question


def hello() -> Dict[str, Any]:
    """The first line."""
    return {
        "hello": PROTOCOL,
        "version": __version__,
        "python": platform.python_version(),
        "host": os.uname().nodename,
        "machine": os.uname().machine,
        "pid": os.getpid(),
        "uid": os.geteuid(),
    }


def lines(fd: int, wait: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """Lines of a descriptor until its end; a line that is too long ends it too. `wait` is called before each read."""
    buffer = b""
    while len(buffer) <= _LINE_LIMIT:
        wait(fd)
        raw = os.read(fd, 1 << 16)
        if not raw:
            return
        *whole, buffer = (buffer + raw).split(b"\n")
        yield from whole


def _send(fd: int, value: Any) -> None:
    view = memoryview(json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    while view:
        view = view[os.write(fd, view) :]


def needed_fds() -> Set[int]:
    """Descriptors that this program itself is imported from."""
    prefix = "/proc/self/fd/"
    return {int(one[len(prefix) :]) for one in sys.path if one.startswith(prefix) and one[len(prefix) :].isdigit()}


def serve() -> int:
    """Answer until stdin ends. Returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the caller, which then closes stdin
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    out = os.dup(1)
    os.dup2(2, 1)  # a stray print of any library goes to stderr
    ticker = Ticker(Nursery(needed_fds(), hangup_fd=0))
    gc.collect()
    gc.freeze()
    try:
        _send(out, hello())
        for line in lines(0, ticker.deaths.wait_for):
            if not line.strip():
                continue
            try:
                question = wire.ask(json.loads(line))
            except ValueError as error:
                _send(out, {"error": str(error)[:500]})
                continue
            try:
                answer = {"sample": ticker.answer(question), "id": question.id}
            except Hangup:
                return 0
            except Exception as error:  # said to the caller, who may ask something else
                answer = {"error": f"{type(error).__name__}: {error}"[:500], "id": question.id}
            _send(out, answer)
    except BrokenPipeError:
        return 0
    return 0


def once(arguments: List[str]) -> int:
    """Print one full sample of a scan and of the processes named by pid, as JSON (`python3 FILE [PID…]`)."""
    if not all(one.isdigit() for one in arguments):
        sys.stderr.write("usage: python3 FILE [PID...]: one sample of all processes, in full of those named, as JSON\n")
        return 2
    probes = tuple(name for name in PROBES if name not in ("health", *DEEP))
    if not arguments:
        probes = ("scan", "host")
    ticker = Ticker(Nursery(needed_fds()))
    sample = ticker.answer(Ask(id=1, probes=probes, pids=tuple(int(one) for one in arguments), deadline_s=10.0))
    sys.stdout.write(json.dumps(sample, indent=1) + "\n")
    return 0
