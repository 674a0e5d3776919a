"""The agent: questions come as JSON lines on stdin, samples go as JSON messages (frames.py) to stdout, nothing else ever does.

Its first message is `{"hello": 1, …}`, then one `{"sample": …}` or `{"error": …}` for each question. It ends when stdin
ends, also in the middle of a question: keep stdin open until the answer is there. An `{"order": …}` has no answer:
`{"idle_s": 900}` ends the agent when nothing was asked for so long (a connection may die without a word), `{"tool": …}`
brings a py-spy (tool.py).
"""

from __future__ import annotations

import gc
import json
import os
import platform
import signal
import sys
import time
from typing import Any, Dict, Optional, Set

from .. import __version__
from ..model.ask import Ask
from . import wire
from .frames import framed, lines
from .isolate import Hangup, Nursery
from .standing import Standing, answered, line
from .tick import Ticker

PROTOCOL = 1


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


def _send(fd: int, message: bytes) -> None:
    view = memoryview(framed(message))
    while view:
        view = view[os.write(fd, view) :]


def needed_fds() -> Set[int]:
    """Descriptors that this program itself is imported from."""
    prefix = "/proc/self/fd/"
    return {int(one[len(prefix) :]) for one in sys.path if one.startswith(prefix) and one[len(prefix) :].isdigit()}


class _Orders:
    """What the caller has ordered so far."""

    def __init__(self) -> None:
        self.idle_s: Optional[float] = None
        self._tool: Any = None

    def take(self, order: Dict[str, Any]) -> None:
        """Raises ValueError for one that cannot be followed."""
        if "idle_s" in order:
            self.idle_s = float(order["idle_s"])
        if "tool" in order or "tool_size" in order:
            from .tool import Tool  # noqa: PLC0415 - seldom wanted

            self._tool = self._tool or Tool()
            self._tool.take(order)

    def applied(self, ask: Ask) -> Ask:
        """The question as it is meant after them."""
        return self._tool.lent(ask) if self._tool is not None else ask


def serve() -> int:
    """Answer until stdin ends. Returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the caller, which then closes stdin
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    out = os.dup(1)
    os.dup2(2, 1)  # a stray print of any library goes to stderr
    nursery = Nursery(needed_fds(), hangup_fd=0)
    ticker, standing = Ticker(nursery), Standing(nursery, above={os.getpid()})
    orders = _Orders()
    gc.freeze()  # what there is stays, and is not copied for children by a search for garbage
    try:
        _send(out, line(hello()))
        for said in lines(0, lambda fd: ticker.deaths.wait_for(fd, orders.idle_s)):
            if not said.strip():
                continue
            try:
                plain = json.loads(said)
                if isinstance(plain, dict) and "order" in plain:
                    orders.take(plain["order"])
                    continue
                question = orders.applied(wire.ask(plain))
            except ValueError as error:
                _send(out, line({"error": str(error)[:500]}))
                continue
            asked = time.monotonic()
            message = standing.answer(question) if question.together else None
            if message is None:
                message = answered(ticker, standing.left(question, asked))
            _send(out, message)
    except (BrokenPipeError, Hangup):
        return 0
    finally:
        standing.end()
    return 0
