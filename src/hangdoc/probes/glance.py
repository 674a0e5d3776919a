"""Many quick looks at one process: where its threads are, what they read and write, which eventfds move.

Nothing is stopped. A call that never blocks is not seen as such, its thread only runs; but what it reads and writes is
counted (`task/TID/io` counts read(2) and write(2) on eventfds, pipes and sockets too), and an eventfd's counter is in
its fdinfo.
"""

from __future__ import annotations

import collections
import random
import time
import typing
from dataclasses import field
from typing import Dict, List, Optional, Tuple

from ..model.deep import Glance, GlanceThread, Spot
from ..model.frozen import dataclass
from ..model.sample import Fd, Process, Unseen
from ..model.syscalls import TAKES_FD
from . import fds, syscalls
from .calls import parse_syscall
from .procfs import TICK, Folder, parse_status, say, text
from .reading import reason

LOOKS, SECONDS = 100, 1.5
_THREADS = 512  # more are not looked at
_KEPT = 16  # threads that are told
_SPOTS = 8
_FDS = 256  # descriptors whose links are read
_EVENTFDS = 64
_IO = ("syscr", "rchar", "syscw", "wchar")
Key = Tuple[bool, Optional[int], Optional[int]]  # ran, call, descriptor


@dataclass(frozen=False)
class _Seen:
    """One thread while it is looked at."""

    name: str = ""
    spots: typing.Counter[Key] = field(default_factory=collections.Counter)
    cpu: Optional[Tuple[float, float]] = None
    io: Optional[Tuple[int, ...]] = None


def read(
    root: str, process: Process, unseen: List[Unseen], looks: int = LOOKS, seconds: float = SECONDS
) -> Optional[Glance]:
    """`looks` looks within about `seconds`; None when the process could not be read."""
    try:
        with Folder(root, process.pid) as folder:
            return _looks(folder, unseen, looks, seconds)
    except OSError as error:
        say(unseen, "glance", error, "task", process.pid)
        return None


def _looks(folder: Folder, unseen: List[Unseen], looks: int, seconds: float) -> Glance:
    began = time.monotonic()
    threads = {tid: _Seen() for tid in folder.numbers("task")[:_THREADS]}
    first = {tid: _counters(folder, tid, one) for tid, one in threads.items()}
    table = _descriptors(folder)
    eventfds = [number for number, one in table.items() if one.kind == "eventfd"][:_EVENTFDS]
    counts = {number: _eventfd(folder, number) for number in eventfds}
    moved: Dict[int, int] = {}
    taken = 0
    for turn in range(looks):
        for tid, one in list(threads.items()):
            try:
                one.spots[_spot(folder.read(f"task/{tid}/syscall", 512))] += 1
            except OSError as error:
                if reason(error) == "denied":
                    say(unseen, "glance", error, "syscall", folder.pid)
                    return Glance(0, 0.0)
                threads.pop(tid)
        taken += 1
        for number in eventfds if turn % 8 == 0 else ():
            now, before = _eventfd(folder, number), counts[number]
            if now is not None and before is not None and now != before:
                moved[number] = now - before
            elif number in moved:
                moved[number] = 0
        # at random moments within its turn: looks in step with a loop would always see the same part of it
        due = began + seconds * (turn + random.random()) / looks  # noqa: S311 - nothing secret
        time.sleep(max(0.0005, due - time.monotonic()))
    passed = time.monotonic() - began
    found = [_told(tid, one, first[tid], _counters(folder, tid, one), table) for tid, one in threads.items()]
    busy = sorted(found, key=lambda one: (one.tid != folder.pid, -_activity(one)))
    kept = tuple(one for one in busy[:_KEPT] if one.tid == folder.pid or _activity(one))
    return Glance(taken, round(passed, 3), kept, moved)


def _spot(raw: bytes) -> Key:
    """What one read of `syscall` says."""
    number, args, _, _ = parse_syscall(raw)
    if number is None:
        return True, None, None
    if number < 0:
        return False, None, None  # blocked outside of a call: a page fault
    takes = syscalls.NAME.get(number) in TAKES_FD and args and args[0] < 1 << 31
    return False, number, args[0] if takes else None


def _counters(folder: Folder, tid: int, one: _Seen) -> Tuple[Tuple[float, float], Optional[Tuple[int, ...]]]:
    """((user, system) CPU seconds, the four counters of `io`); what cannot be read is what it was last."""
    try:
        raw = folder.read(f"task/{tid}/stat")
        opening, closing = raw.index(b"("), raw.rindex(b")")
        rest = raw[closing + 1 :].split()
        one.name, one.cpu = text(raw[opening + 1 : closing]), (int(rest[11]) / TICK, int(rest[12]) / TICK)
        counters = parse_status(folder.read(f"task/{tid}/io"))
        one.io = tuple(int(counters[name]) for name in _IO)
    except (OSError, ValueError, KeyError, IndexError):
        pass
    return one.cpu or (0.0, 0.0), one.io


def _descriptors(folder: Folder) -> Dict[int, Fd]:
    found: Dict[int, Fd] = {}
    try:
        for number in folder.numbers("fd")[:_FDS]:
            found[number] = fds.describe(number, folder.link(f"fd/{number}"), None)
    except OSError:
        pass  # closed meanwhile, or denied: then the call is told without it
    return found


def _eventfd(folder: Folder, number: int) -> Optional[int]:
    try:
        return int(fds.parse_info(folder.read(f"fdinfo/{number}"))["eventfd-count"][0], 16)
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _told(
    tid: int,
    one: _Seen,
    first: Tuple[Tuple[float, float], Optional[Tuple[int, ...]]],
    last: Tuple[Tuple[float, float], Optional[Tuple[int, ...]]],
    table: Dict[int, Fd],
) -> GlanceThread:
    spots = sorted(one.spots.items(), key=lambda item: -item[1])[:_SPOTS]
    (user, system), before = first
    (user_now, system_now), after = last
    io: List[Optional[int]] = [None] * 4
    if before is not None and after is not None:
        io = [after[at] - before[at] for at in range(len(_IO))]
    return GlanceThread(
        tid=tid,
        name=one.name,
        spots=tuple(
            Spot(count, number, fd, table[fd].target if fd in table else "", ran) for (ran, number, fd), count in spots
        ),
        user_s=round(user_now - user, 2),
        system_s=round(system_now - system, 2),
        reads=io[0],
        read_bytes=io[1],
        writes=io[2],
        written_bytes=io[3],
    )


def _activity(one: GlanceThread) -> float:
    """How much a thread did: its time on a CPU, the looks that saw it run, its calls. 0 for one that slept throughout."""
    ran = sum(spot.count for spot in one.spots if spot.ran)
    return ran + 100 * (one.user_s + one.system_s) + 0.01 * ((one.reads or 0) + (one.writes or 0))
