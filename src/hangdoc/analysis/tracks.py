"""One member over time: its counters, its threads, its stacks; and what counts as movement between two looks."""

from __future__ import annotations

from collections import deque
from dataclasses import fields

import msgspec

from ..model.frozen import replace
from ..model.launch import Member
from ..model.sample import Fd, Process, Stack, Thread
from . import floors

_STACK_AGE_S = 5.0  # an older stack is not what a thread is doing now
_WITHOUT_CALL = 2  # length of a place that is told by state and wait channel alone
_KEPT = 64  # looks and ticks kept per member
_DESCRIPTORS = 1 << 20  # fs.nr_open; no address is so low
_IDENTITY = {"pid", "ppid", "start", "state", "comm"}


class Tick(msgspec.Struct, frozen=True):
    """Counters of a member at one instant."""

    at: float  # monotonic seconds of the host
    cpu: float
    faults: int
    major: int
    rss: int | None
    read_bytes: int | None
    rchar: int | None
    syscr: int | None
    rss_file: int | None = None  # of mapped files
    wchar: int | None = None
    switches: int | None = None  # of its main thread


class ThreadTrack(msgspec.Struct):
    """How long a thread has been in the same blocked call, and how long it has not run at all."""

    place: tuple[object, ...]
    in_place_since: float
    slices: int | None
    not_run_since: float
    deadlines: set[float] = set()
    looks: int = 1
    inside: Thread | None = None  # as it was last found in its place
    between: bool = False  # the last look found it in no call

    @property
    def blocked(self) -> bool:
        """Whether its place is a call that could be read."""
        return len(self.place) > _WITHOUT_CALL


class Track(msgspec.Struct):
    """One member over time."""

    member: Member
    process: Process
    first: float
    last: float
    ticks: deque[Tick] = msgspec.field(default_factory=lambda: deque(maxlen=_KEPT))
    stacks: deque[tuple[float, tuple[Stack, ...]]] = msgspec.field(default_factory=lambda: deque(maxlen=_KEPT))
    threads: dict[int, ThreadTrack] = {}
    moved: dict[str, float] = {}  # channel -> last instant at which it moved
    state_since: float = 0.0
    threads_at: float = 0.0  # when its threads were last looked at
    died: float | None = None  # when it ended, where the agent saw it happen
    gone: float | None = None  # when it was first missed
    children: set[int] = set()
    born: float = float("-inf")  # when the process started
    attached: bool = False  # a tool was attached since the last look: what it stirred up is no movement

    @property
    def main(self) -> Thread | None:
        """Its main thread, as last seen."""
        return (self.process.threads or {}).get(self.process.pid)

    def asleep_since(self, now: float) -> float:
        """Since when its main thread has not run at all, by the switches that each tick counted; `now` without them.

        A thread that sleeps is put off no CPU before it has run again.
        """
        since = now
        for tick in reversed(self.ticks):
            if tick.switches is None or tick.switches != self.process.switches:
                break
            since = tick.at
        return since

    def _in_place(self, tid: int | None, since: float) -> bool:
        known = self.threads.get(tid) if tid is not None else None
        return known is not None and known.in_place_since <= since

    @property
    def last_stacks(self) -> tuple[Stack, ...]:
        """The last Python stack seen of each thread. A look that stops nothing misses a busy thread now and then.

        An older stack still stands while its thread has been blocked in the same place since.
        """
        found: dict[tuple[int | None, str], Stack] = {}
        for at, stacks in reversed(self.stacks):
            for one in stacks:
                if self.last - at <= _STACK_AGE_S or self._in_place(one.tid, at):
                    found.setdefault((one.tid, one.name if one.tid is None else ""), one)
        return tuple(found.values())

    def cpu_rate(self, since: float) -> float | None:
        """CPU seconds per second from `since` on; None with fewer than two ticks."""
        ticks = [tick for tick in self.ticks if tick.at >= since]
        if len(ticks) < 2 or ticks[-1].at <= ticks[0].at:
            return None
        return (ticks[-1].cpu - ticks[0].cpu) / (ticks[-1].at - ticks[0].at)


def thread_place(thread: Thread) -> tuple[object, ...]:
    """Where a thread is blocked: call, stack pointer and instruction; the wait channel where those are denied."""
    if thread.syscall is None:
        return (thread.state, thread.wchan)
    # A descriptor is part of the place. An address is not: that of a futex may be reused on the stack, and a loop around
    # poll() makes the array that it hands over anew each time, as Python's selectors do.
    first = thread.args[:1] if thread.args and thread.args[0] < _DESCRIPTORS else ()
    return (thread.syscall, thread.sp, thread.pc, *first)


_EMPTY = {one.name: one.default for one in fields(Process) if one.name not in _IDENTITY}


def merge(old: Process, new: Process) -> Process:
    """The newer process, with the facts of the older one where the newer look did not ask for them."""
    kept = {name: getattr(old, name) for name, default in _EMPTY.items() if getattr(new, name) == default}
    if old.fds and new.fds and set(new.fds) <= {1, 2}:  # a look at its outputs alone, which tells less of each
        changed = {n: one for n, one in new.fds.items() if not _same_file(old.fds.get(n), one)}
        kept["fds"] = {**old.fds, **changed} if changed else old.fds
    return replace(new, **kept)


def _same_file(old: Fd | None, new: Fd) -> bool:
    return old is not None and (old.target, old.inode) == (new.target, new.inode)


def moved_channels(before: Tick, now: Tick) -> list[str]:
    """Counters that moved by more than the noise floors between two ticks; CPU time is judged elsewhere, by its stacks."""
    seconds = max(now.at - before.at, 0.001)
    moved = []
    if now.rss is not None and before.rss is not None and now.rss - before.rss > floors.MEMORY:
        moved.append("memory")
    if now.faults - before.faults > floors.FAULTS * seconds:
        moved.append("faults")
    if now.major - before.major > floors.MAJOR_FAULTS * seconds:
        moved.append("major-faults")
    if now.read_bytes is not None and before.read_bytes is not None:
        if now.read_bytes - before.read_bytes > floors.READ * seconds:
            moved.append("storage")
        read, calls = now.rchar - before.rchar, now.syscr - before.syscr  # type: ignore[operator]
        if read > floors.READ * seconds and read > floors.LARGE_READ * max(calls, 1):
            moved.append("reads")
    return moved
