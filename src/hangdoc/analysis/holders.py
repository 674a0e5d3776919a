"""Who holds what a thread waits for: locks in memory, also across processes, the GIL, and locks on files."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..model.sample import FileLock, FutexWait, Process, Thread
from ..model.words import Mechanism, Via
from .history import History

_PYTHON = ("python-lock", "python-rlock")
_VIA: dict[str, Via] = {"rwlock": "rwlock", "join": "join", "python-lock": "python-lock", "python-rlock": "python-lock"}
# Kinds that name a holder at all; an owner of another kind would be a misreading.
_HELD = ("mutex", "robust-mutex", "pi-mutex", "rwlock", "join", *_PYTHON)
_WORDS = {
    "python-lock": "Python lock", "python-rlock": "Python RLock", "pi-mutex": "PI mutex", "robust-mutex": "robust mutex",
    "join": "thread",
}  # fmt: skip


class Holder(msgspec.Struct, frozen=True):
    """Who must act before a thread can go on. `pid` None: nobody can, or nobody is known (`lost` tells which)."""

    pid: int | None
    tid: int | None
    via: Via
    what: str  # "Python lock", "mutex"
    lost: bool = False  # the holder is no thread any more, or never was one of this process: nobody can release it


def of_futex(thread: Thread, process: Process, history: History) -> Holder | None:
    """The holder of the lock that a thread is blocked on; None where it waits for no lock with a holder."""
    futex = thread.futex
    if futex is None or futex.kind not in _HELD:
        return None
    via, what = _VIA.get(futex.kind, "mutex"), _WORDS.get(futex.kind, futex.kind)
    if futex.owner is not None:
        return Holder(process.pid, futex.owner, via, what)
    if futex.owner_raw is None:
        return None
    if futex.shared or futex.object is not None:
        return _elsewhere(futex, process, history, via, what)
    return Holder(None, None, via, what, lost=True)


def _elsewhere(futex: FutexWait, process: Process, history: History, via: Via, what: str) -> Holder | None:
    """The thread of another member that maps the same memory and has the holder's number; None when there is none."""
    area = (futex.object or "").rpartition(":")[0]
    for pid, track in history.tracks.items():
        if pid == process.pid or not area or area not in (track.process.shared or ()):
            continue
        for tid, thread in (track.process.threads or {}).items():
            if futex.owner_raw in (thread.nstid if thread.nstid is not None else tid,):
                return Holder(pid, tid, via, what)
    return None


def of_gil(thread: Thread, process: Process) -> Holder | None:
    """The holder of the GIL, for a thread that waits for it."""
    gil = process.gil
    if gil is None or thread.tid not in gil.waiters or gil.holder == thread.tid:
        return None
    return Holder(process.pid, gil.holder, "gil", "GIL")


def holds_gil(thread: Thread, process: Process, stacks_say: int | None) -> bool:
    """Whether a thread holds the GIL: by CPython's own structure, else by the stack reader's word."""
    if process.gil is not None:
        return process.gil.holder == thread.tid
    return stacks_say is not None and stacks_say == thread.tid


def of_file(pid: int, locks: list[FileLock]) -> FileLock | None:
    """The file lock that a process waits for."""
    return next((lock for lock in locks if pid in lock.waiters), None)


def cycle(thread: Thread, process: Process, history: History) -> tuple[list[int], bool]:
    """Threads of the process along the holders of locks from `thread` on, and whether they close a circle with it."""
    threads: Mapping[int, Thread] = process.threads or {}
    seen = [thread.tid]
    at: Thread | None = thread
    while at is not None:
        holder = of_futex(at, process, history)
        if holder is None or holder.pid != process.pid or holder.tid is None:
            return seen, False
        if holder.tid == thread.tid:
            return seen, True
        if holder.tid in seen:
            return seen, False
        seen.append(holder.tid)
        at = threads.get(holder.tid)
    return seen, False


def lock_mechanism(what: str, *, circle: bool, alone: bool) -> Mechanism:
    """The word for a wait for a held lock."""
    if circle and alone:
        return "lock-self" if what.startswith("Python") else "mutex-self"
    return "lock-cycle" if circle else "lock-wait"
