"""Run what may block in disposable children, under one deadline, none waited for.

A read of a sick target can block for ever and unkillably. So such tasks are done by forked children that hold nothing
but the queue of tasks and their answer pipe, answer in lines as they go, and are killed at the deadline. One child does
task after task, for a fork costs more than most of them; as soon as the queue gets shorter too slowly, more children take
over what is left in it, so that a task that blocks or dawdles costs nobody but itself. A child that cannot be ended is
counted; past `ABANDONED_LIMIT` of them the agent goes on with harmless reads only.

A child that ends without a word may have taken a task with it: the others do the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from dataclasses import field
from typing import Any, Callable, Collection, Dict, Hashable, List, Literal, Mapping, Optional, Sequence, Set, TypeVar

from ..model.frozen import dataclass
from ..model.plain import to_plain
from ..model.words import UnseenReason
from .disposable import NUMBER, Task, words, work

ABANDONED_LIMIT = 3
ANSWER_LIMIT = 32 << 20  # bytes of one child's answers
AT_ONCE = 64  # children at one time; the other tasks wait for their turn under the same deadline
GROW_S = 0.05  # so often more children are started, unless the queue will be empty before the next time
SIGN_S = 0.1  # so often a disposable process says that it lives
_REAP_S = 0.2  # how long the end of killed children is looked for

Ended = Literal["done", "timed-out", "failed", "skipped"]
K = TypeVar("K", bound=Hashable)


class Hangup(Exception):
    """The caller of the agent has gone."""


@dataclass(frozen=False)
class Outcome:
    """What became of one task. `parts` are its answers so far, whatever its end."""

    ended: Ended = "skipped"  # skipped: its turn never came
    parts: List[Any] = field(default_factory=list)
    detail: str = ""

    @property
    def reason(self) -> UnseenReason:
        """Why there is no answer, or no further one."""
        return "failed" if self.ended == "done" else self.ended


@dataclass(frozen=False)
class _Child:
    pid: int
    pipe: int
    task: Optional[int] = None  # the number of what it is at
    took: int = 0  # how many it had
    size: int = 0  # bytes of this task's answer
    none_left: bool = False  # it has found the queue at its end
    buffer: bytearray = field(default_factory=bytearray)


class _Queue:
    """The numbers of all tasks in a pipe, which ends after them.

    A read of four bytes gives one number to one child: reads of one pipe exclude each other (pipe(7), "I/O on pipes").
    A pipe may hold no more than one page, so it is filled again as they are taken. Knows how fast it gets shorter.
    """

    def __init__(self, count: int) -> None:
        self.reading, self._writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writing, False)
        self._rest = b"".join(number.to_bytes(NUMBER, "little") for number in range(count))
        self._open = True
        self.left = count
        self.due = time.monotonic() + GROW_S  # when it is asked next whether this is too slow
        self._taken, self._more = 0, 1  # since it was asked last; how many children come when it is too slow

    def shorten(self, by: int) -> None:
        """So many were taken."""
        self.left -= by
        self._taken += by

    def wanted(self, running: int) -> int:
        """How many more children should work on it."""
        now = time.monotonic()
        if now >= self.due:
            self._more = 1 if self._taken >= self.left else 2 * self._more
            self._taken, self.due = 0, now + GROW_S
            if self._more > 1:
                return self._more
        return 0 if running else 1

    def fill(self) -> None:
        """Put in what there is room for."""
        with contextlib.suppress(BlockingIOError):
            while self._rest:  # so few bytes are written as a whole or not at all
                self._rest = self._rest[os.write(self._writing, self._rest[: select.PIPE_BUF]) :]
        if not self._rest:
            self._end()

    def close(self) -> None:
        """Leave nothing open."""
        self._end()
        os.close(self.reading)

    def _end(self) -> None:
        if self._open:
            self._open = False
            os.close(self._writing)


class Nursery:
    """Starts children, collects their answers, ends them. Keeps count of those that would not end."""

    def __init__(
        self,
        keep: Set[int] = frozenset(),  # type: ignore[assignment]
        hangup_fd: Optional[int] = None,
        sign: Optional[Callable[[], None]] = None,
    ) -> None:
        self.keep = set(keep)  # descriptors that children need: the zip that the code is imported from
        self.hangup_fd = hangup_fd  # when its other end closes, `run_all` ends with Hangup
        self.sign = sign  # gives a sign of life; where it is set, this process is disposable itself (standing.py)
        self.kept: Set[int] = set()  # children that stay from question to question
        self.unreaped: Dict[int, Hashable] = {}  # pid -> key of the task that it was ended in, None between two
        self.started = 0

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

    def run_all(
        self, tasks: Mapping[K, Task], deadline: float, lasts: Callable[[K], bool] = lambda _: False
    ) -> Dict[K, Outcome]:
        """Run all tasks until `deadline` (CLOCK_MONOTONIC). Every task has an outcome; raises only Hangup.

        `lasts`: whether a task waits for somebody else, with a time limit of its own. In a disposable process such tasks
        alone need children, so that they wait side by side.
        """
        outcomes: Dict[K, Outcome] = {key: Outcome() for key in tasks}
        keys = list(tasks)
        if self.sign is not None:
            keys = [key for key in tasks if _lasting(lasts, key)]
            for key in tasks:
                if key not in keys:
                    self._do(tasks[key], outcomes[key], deadline)
        if keys:
            self._run(keys, [tasks[key] for key in keys], [outcomes[key] for key in keys], deadline)
        return outcomes

    def dispose(self, pid: int, key: Hashable) -> None:
        """End a child of this process that is not reaped yet, and wait for it as little as for any other."""
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)  # our own child, not yet reaped: the number cannot be another's
        self.unreaped[pid] = key
        self._reap(_REAP_S, {pid})

    def _do(self, task: Task, outcome: Outcome, end: float) -> None:
        """Do a task in this process."""

        def emit(value: Any) -> None:
            self._live()
            outcome.parts.append(to_plain(value))

        self._live()
        if time.monotonic() >= end:
            return
        try:
            task(emit)
            outcome.ended = "done"
        except Exception as error:  # one broken task must not cost the others
            outcome.ended, outcome.detail = "failed", words(error)

    def _live(self, until: float = 0.0) -> float:
        """Say that this process lives, where somebody wants to know. Until when it may wait that would wait until then."""
        if self.sign is None:
            return until
        self.sign()
        return min(until, time.monotonic() + SIGN_S)

    def _run(self, keys: Sequence[Hashable], tasks: Sequence[Task], outcomes: Sequence[Outcome], end: float) -> None:
        try:
            queue = _Queue(len(tasks))
        except OSError as error:
            _failed(outcomes, str(error))
            return
        running: Dict[int, _Child] = {}
        stuck = set(self.unreaped)  # those that cannot be ended are not waited for each time
        poller = select.poll()
        if self.hangup_fd is not None:
            poller.register(self.hangup_fd, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
        try:
            while time.monotonic() < end:
                queue.fill()
                for _ in range(min(queue.wanted(len(running)), queue.left, AT_ONCE - len(running))):
                    child = self._start(tasks, queue.reading, outcomes)
                    if child is not None:
                        running[child.pipe] = child
                        poller.register(child.pipe, select.POLLIN)
                if not running:
                    _failed(outcomes, "it ended early")  # a child took them, and never said so
                    return
                until = self._live(min(queue.due, end) if queue.left else end)
                for number, _ in poller.poll(max(0.0, until - time.monotonic()) * 1000):
                    if number not in running:
                        raise Hangup
                    child = running[number]
                    before, goes_on = child.took, _collect(child, outcomes)
                    queue.shorten(child.took - before)
                    if not goes_on:
                        poller.unregister(number)
                        self._finish(running.pop(number), keys)
                        queue.shorten(queue.left if child.none_left else 0 if child.took else 1)
        finally:
            queue.close()
            for child in running.values():
                _collect(child, outcomes)  # what it still had to say
                if child.task is not None:
                    outcomes[child.task].ended, outcomes[child.task].detail = "timed-out", ""
                self._finish(child, keys)
            self._reap(_REAP_S, set(self.unreaped) - stuck)

    def _start(self, tasks: Sequence[Task], queue: int, outcomes: Sequence[Outcome]) -> Optional[_Child]:
        try:
            reading, writing = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            _failed(outcomes, str(error))
            return None
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(writing)
            _failed(outcomes, f"fork: {error}")
            return None
        if pid == 0:
            work(tasks, queue, writing, self.keep, parent)
        os.close(writing)
        os.set_blocking(reading, False)
        self.started += 1
        return _Child(pid, reading)

    def _finish(self, child: _Child, keys: Sequence[Hashable]) -> None:
        os.close(child.pipe)
        with contextlib.suppress(OSError):
            os.kill(child.pid, signal.SIGKILL)  # our own child, not yet reaped: the number cannot be another's
        self.unreaped[child.pid] = None if child.task is None else keys[child.task]

    def _reap(self, patience_s: float = 0.0, wanted: Collection[int] = ()) -> None:
        """Collect those that have ended; wait a moment for those that are `wanted`."""
        until = time.monotonic() + patience_s
        while True:
            for pid in list(self.unreaped):
                try:
                    ended, _ = os.waitpid(pid, os.WNOHANG)
                except OSError:
                    self.unreaped.pop(pid, None)
                    continue
                if ended:
                    self.unreaped.pop(pid, None)
            if not any(pid in self.unreaped for pid in wanted) or time.monotonic() >= until:
                return
            time.sleep(0.001)


def _lasting(lasts: Callable[[K], bool], key: K) -> bool:
    """Whether a task lasts. Where that cannot be told, it is as well done by a child, whose error is the task's alone."""
    try:
        return lasts(key)
    except Exception:
        return True


def _failed(outcomes: Sequence[Outcome], detail: str) -> None:
    for one in outcomes:
        if one.ended == "skipped":
            one.ended, one.detail = "failed", detail


def _collect(child: _Child, outcomes: Sequence[Outcome]) -> bool:
    """Take what a child has written. False when it has ended, or wrote too much."""
    while True:
        try:
            raw = os.read(child.pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not raw:
            return False
        child.size += len(raw)
        child.buffer += raw
        if b"\n" in raw:  # splitting a line of megabytes again for each piece of it would take seconds
            *lines, rest = child.buffer.split(b"\n")
            child.buffer = bytearray(rest)
            for line in lines:
                _take(child, bytes(line), outcomes)
        if child.size > ANSWER_LIMIT:
            if child.task is not None:
                outcomes[child.task].detail = f"more than {ANSWER_LIMIT} bytes of answer"
                child.task = None
            return False


def _take(child: _Child, line: bytes, outcomes: Sequence[Outcome]) -> None:
    """One line of a child."""
    kind, rest = line[:1], line[1:]
    if kind == b".":
        child.none_left = True
    elif kind == b"=":
        child.task, child.took, child.size = int(rest), child.took + 1, 0
        outcomes[child.task].ended, outcomes[child.task].detail = "failed", "it ended early"  # until it says otherwise
    elif child.task is not None:
        outcome = outcomes[child.task]
        if kind == b"+":
            outcome.parts.append(json.loads(rest))
        else:
            outcome.ended, outcome.detail = ("failed", rest.decode()) if rest else ("done", "")
            child.task = None
