"""What the blocked threads of one process wait for, from its memory: one descriptor of `maps` and `mem` for everything."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ..model.frozen import dataclass, replace
from ..model.sample import Gil, Thread, Unseen
from . import gil, pylocks
from .calls import parse_schedstat, parse_syscall
from .futexes import Reader, bare, has_news
from .memory import Memory
from .procfs import Folder, say
from .reading import reason

_SHARED = 256  # shared objects of a process that are named


@dataclass(frozen=True)
class Waits:
    """The threads with `futex`, `deadline`, `poll` and `path` filled; those without news are the same objects."""

    threads: Dict[int, Thread]
    gil: Optional[Gil] = None
    shared: Optional[Tuple[str, ...]] = None  # None: the memory was not looked at


def read(
    root: str, pid: int, threads: Dict[int, Thread], previous: Optional[Dict[int, Thread]], unseen: List[Unseen]
) -> Waits:
    """Opens `maps` and `mem`, which block while the target's memory is locked."""
    before = previous or {}
    wanted = {tid: one for tid, one in threads.items() if has_news(one, before.get(tid))}
    if not wanted or _still(threads, before):
        return Waits(threads)
    try:
        with Folder(root, pid) as folder:
            memory = Memory(folder)
            try:
                return _read(folder, memory, threads, wanted, before)
            finally:
                memory.close()
    except OSError as error:
        if reason(error) != "gone":
            say(unseen, "threads", error, "memory (futex owners, deadlines)", pid)
        return Waits({**threads, **{tid: bare(one) for tid, one in wanted.items()}})


def _still(threads: Dict[int, Thread], before: Dict[int, Thread]) -> bool:
    """Whether no thread has run: then nobody took or gave a lock, save one that other processes share."""
    return len(threads) == len(before) and all(
        one is before.get(tid) and (one.futex is None or one.futex.object is None) for tid, one in threads.items()
    )


def _read(
    folder: Folder, memory: Memory, threads: Dict[int, Thread], wanted: Dict[int, Thread], before: Dict[int, Thread]
) -> Waits:
    reader = Reader(memory, threads)
    found = reader.all(wanted)
    for tid, futex in pylocks.owners(memory, found, reader.tids).items():
        found[tid] = replace(found[tid], futex=futex)
    for tid, one in found.items():
        # A thread that got the lock meanwhile would seem to wait for itself.
        if one.futex is not None and one.futex.owner is not None and not _waits_on(folder, one):
            found[tid] = replace(one, futex=replace(one.futex, owner=None, owner_raw=None))
    same = {tid: before[tid] for tid, one in found.items() if one == before.get(tid)}
    awake = {tid: _now(folder, one) for tid, one in threads.items() if one.state == "R"}
    holder = gil.find(memory, {**threads, **awake}, reader.tids)
    shared = tuple(sorted({one[3] for one in memory.shared})[:_SHARED])
    return Waits({**threads, **found, **same}, holder, shared)


def _now(folder: Folder, thread: Thread) -> Thread:
    """A thread that ran, with the call that it is in by now: who waits for the GIL wakes 200 times a second."""
    try:
        number, args, sp, pc = parse_syscall(folder.read(f"task/{thread.tid}/syscall"))
    except (OSError, ValueError):
        return thread
    return replace(thread, syscall=number, args=args, sp=sp, pc=pc)


def _waits_on(folder: Folder, thread: Thread) -> bool:
    """Whether a thread has not run since it was looked at; where the kernel does not count, whether it is where it was.

    The same call with the same arguments is not enough: it may have had the lock and have come back.
    """
    task = f"task/{thread.tid}/"
    try:
        if thread.slices is not None:
            return parse_schedstat(folder.read(task + "schedstat")) == (thread.ran_ns, thread.waited_ns, thread.slices)
        same = parse_syscall(folder.read(task + "syscall"))[1:] == (thread.args, thread.sp, thread.pc)
    except (OSError, ValueError):
        return False
    return same and thread.futex is not None and thread.futex.owner != thread.tid
