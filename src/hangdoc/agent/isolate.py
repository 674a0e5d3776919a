"""Run what may block in disposable children: many at once under one deadline, none waited for.

A read of a sick target can block for ever and unkillably. So each such task runs in a forked child that holds nothing
but its answer pipe, answers in JSON lines as it goes, and is killed at the deadline. A child that cannot be ended is
counted; past `ABANDONED_LIMIT` of them the agent goes on with harmless reads only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Generic, Hashable, List, Literal, Mapping, Optional, Set, TypeVar

from ..model.plain import to_plain
from ..model.words import UnseenReason

ABANDONED_LIMIT = 3
ANSWER_LIMIT = 32 << 20  # bytes of one child's answers
AT_ONCE = 64  # children at one time; the others wait for their turn under the same deadline
_REAP_S = 0.2  # how long the end of killed children is looked for
_PR_SET_PDEATHSIG = 1

Emit = Callable[[Any], None]
Task = Callable[[Emit], None]
Ended = Literal["done", "timed-out", "failed", "skipped"]
K = TypeVar("K", bound=Hashable)


class Hangup(Exception):
    """The caller of the agent has gone."""


@dataclass
class Outcome:
    """What became of one task. `parts` are its answers so far, whatever its end."""

    ended: Ended = "skipped"  # skipped: its turn never came
    parts: List[Any] = field(default_factory=list)
    detail: str = ""

    @property
    def reason(self) -> UnseenReason:
        """Why there is no answer, or no further one."""
        return "failed" if self.ended == "done" else self.ended


@dataclass
class _Child(Generic[K]):
    key: K
    pid: int
    pipe: int
    buffer: bytearray
    size: int = 0


def _libc() -> Optional[ctypes.CDLL]:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


_LIBC = _libc()  # loaded before any fork


def seal(keep: Set[int]) -> None:
    """Make this forked process disposable: `/dev/null` on 0 to 2, nothing else open, own session, dies with its parent.

    An unkillable child that kept an inherited pipe would keep the caller's ssh or shell pipeline from ever ending.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in keep:
            with contextlib.suppress(OSError):
                os.close(number)
    os.setsid()
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Nursery:
    """Starts children, collects their answers, ends them. Keeps count of those that would not end."""

    def __init__(self, keep: Set[int] = frozenset(), hangup_fd: Optional[int] = None) -> None:  # type: ignore[assignment]
        self.keep = set(keep)  # descriptors that children need: the zip that the code is imported from
        self.hangup_fd = hangup_fd  # when its other end closes, `run_all` ends with Hangup
        self.unreaped: Dict[int, Hashable] = {}  # pid -> key of its task
        self.started = 0
        self.cpu_s = 0.0

    @property
    def abandoned(self) -> int:
        """How many children were killed and still have not ended."""
        self._reap()
        return len(self.unreaped)

    def stuck(self, key: Hashable) -> bool:
        """Whether a child that was started for a task of this key was killed and still has not ended."""
        self._reap()
        return key in self.unreaped.values()

    @property
    def harmless_only(self) -> bool:
        """Whether so many children are stuck that nothing risky may be started any more."""
        return self.abandoned > ABANDONED_LIMIT

    def run_all(self, tasks: Mapping[K, Task], deadline: float) -> Dict[K, Outcome]:
        """Run all tasks until `deadline` (CLOCK_MONOTONIC). Every task has an outcome; raises only Hangup."""
        outcomes: Dict[K, Outcome] = {key: Outcome() for key in tasks}
        waiting = list(reversed(list(tasks.items())))
        running: Dict[int, _Child[K]] = {}
        poller = select.poll()
        if self.hangup_fd is not None:
            poller.register(self.hangup_fd, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
        try:
            while (waiting or running) and time.monotonic() < deadline:
                while waiting and len(running) < AT_ONCE:
                    key, task = waiting.pop()
                    child = self._start(key, task, outcomes[key])
                    if child is not None:
                        running[child.pipe] = child
                        poller.register(child.pipe, select.POLLIN)
                for number, _ in poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    if number not in running:
                        raise Hangup
                    if not _collect(running[number], outcomes[running[number].key]):
                        poller.unregister(number)
                        self._finish(running.pop(number))
        finally:
            for child in running.values():
                outcome = outcomes[child.key]
                _collect(child, outcome)  # what it still had to say
                if outcome.ended != "done":
                    outcome.ended = "timed-out"
                self._finish(child)
            self._reap(_REAP_S)
        return outcomes

    def _start(self, key: K, task: Task, outcome: Outcome) -> Optional[_Child[K]]:
        try:
            reading, writing = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            outcome.ended, outcome.detail = "failed", str(error)
            return None
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(writing)
            outcome.ended, outcome.detail = "failed", f"fork: {error}"
            return None
        if pid == 0:
            _child(task, writing, self.keep | {writing}, parent)
        os.close(writing)
        os.set_blocking(reading, False)
        self.started += 1
        outcome.ended, outcome.detail = "failed", "it ended early"  # until it says that it is done
        return _Child(key, pid, reading, bytearray())

    def _finish(self, child: _Child[Any]) -> None:
        os.close(child.pipe)
        with contextlib.suppress(OSError):
            os.kill(child.pid, signal.SIGKILL)  # our own child, not yet reaped: the number cannot be another's
        self.unreaped[child.pid] = child.key

    def _reap(self, patience_s: float = 0.0) -> None:
        until = time.monotonic() + patience_s
        while True:
            for pid in list(self.unreaped):
                try:
                    ended, _, usage = os.wait4(pid, os.WNOHANG)
                except OSError:
                    self.unreaped.pop(pid, None)
                    continue
                if ended:
                    self.unreaped.pop(pid, None)
                    self.cpu_s += usage.ru_utime + usage.ru_stime
            if not self.unreaped or time.monotonic() >= until:
                return
            time.sleep(0.001)


def _collect(child: _Child[Any], outcome: Outcome) -> bool:
    """Take what a child has written. False when it has ended, or wrote too much."""
    while True:
        try:
            raw = os.read(child.pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not raw:
            return False
        child.size += len(raw)
        if child.size > ANSWER_LIMIT:
            outcome.ended, outcome.detail = "failed", f"more than {ANSWER_LIMIT} bytes of answer"
            return False
        child.buffer += raw
        if b"\n" not in raw:  # splitting a line of megabytes again for each piece of it would take seconds
            continue
        *lines, rest = child.buffer.split(b"\n")
        child.buffer = bytearray(rest)
        for line in lines:
            part = json.loads(bytes(line))
            if isinstance(part, dict) and "!" in part:  # the child's own last word
                outcome.ended, outcome.detail = part["!"], part.get("detail", "")
            else:
                outcome.parts.append(part)


def _child(task: Task, writing: int, keep: Set[int], parent: int) -> None:
    """The life of a child; never returns."""
    status = 1
    try:
        gc.disable()
        seal(keep)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before PDEATHSIG was set

        def send(value: Any) -> None:
            data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"
            view = memoryview(data)
            while view:
                view = view[os.write(writing, view) :]

        try:
            task(lambda value: send(to_plain(value)))
            send({"!": "done"})
            status = 0
        except BaseException as error:  # whatever it is, the parent has to hear of it
            send({"!": "failed", "detail": f"{type(error).__name__}: {error}"[:500]})
    finally:
        os._exit(status)
