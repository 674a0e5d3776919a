"""What blocked threads wait on, and who holds it: the words behind their system calls' arguments.

An owner is claimed only when everything agrees: the operation, the layout's kind, its users, that the owner is a
thread of the same process, and a second read. "WAIT for the value 2" alone also describes latches and other languages'
locks, where the word that would be the owner is something else.
"""

from __future__ import annotations

import struct
from typing import Dict, Optional, Tuple

from ..model.frozen import replace
from ..model.sample import FutexWait, Thread
from . import calls
from . import syscalls as sc
from .memory import Memory

# Those whose holder may change without the waiter; a semaphore may turn out to be a lock of Python's.
HELD_KINDS = ("mutex", "robust-mutex", "pi-mutex", "rwlock", "join", "semaphore", "python-lock", "python-rlock")
_BEFORE, _AFTER = 24, 24  # bytes around a futex word that the known layouts need
_WAITING = "SDTt"


def has_news(thread: Thread, before: Optional[Thread]) -> bool:
    """Whether what a thread waits on has to be read, again where the holder can change while the waiter sleeps."""
    if thread.state not in _WAITING or thread.syscall is None or thread.syscall < 0:
        return False
    if thread is before:
        return thread.futex is not None and thread.futex.kind in HELD_KINDS
    return sc.NAME.get(thread.syscall) in calls.DECODED


def bare(thread: Thread) -> Thread:
    """The futex as far as the call's arguments tell, without its memory."""
    if thread.syscall != sc.NUMBER.get("futex") or len(thread.args) < 3:
        return thread
    return replace(thread, futex=FutexWait(thread.args[0], "unknown", shared=not thread.args[1] & sc.FUTEX_PRIVATE))


class Reader:
    """Reads what the threads of one process wait on."""

    def __init__(self, memory: Memory, threads: Dict[int, Thread]) -> None:
        self.memory = memory
        # Words in the target hold numbers of its own pid namespace.
        self.tids = {one.nstid if one.nstid is not None else tid: tid for tid, one in threads.items()}
        self.waiting: Dict[int, int] = {}  # address -> threads that wait there
        for one in threads.values():
            if one.syscall == sc.NUMBER.get("futex") and one.args:
                self.waiting[one.args[0]] = self.waiting.get(one.args[0], 0) + 1
        self.words: Dict[int, Optional[Words]] = {}

    def all(self, wanted: Dict[int, Thread]) -> Dict[int, Thread]:
        """The wanted threads, filled."""
        found = {}
        for tid, thread in wanted.items():
            call = sc.NAME.get(thread.syscall if thread.syscall is not None else -1, "")
            # A deadline on the wall clock is rounded anew at each look: one that is known stays as it is.
            new = thread if thread.futex is not None else calls.decode(self.memory, thread, call)
            if call == "futex" and len(thread.args) >= 3:
                new = replace(new, futex=self.futex(thread))
            elif call == "futex_waitv" and thread.args:
                raw = self.memory.read(thread.args[0] + 8, 8)  # the first of its array: {u64 value, u64 address, …}
                address = struct.unpack("=Q", raw)[0] if raw else 0
                new = replace(new, futex=FutexWait(address, "unknown"))
            found[tid] = new
        return found

    def around(self, address: int) -> Optional[Words]:
        """Bytes around a futex word, the same in two reads; shorter where an area begins or ends."""
        if address not in self.words:
            first = self.look(address)
            again = self.look(address) if first is not None else None
            self.words[address] = first if first is not None and first.same(again) else None
        return self.words[address]

    def look(self, address: int) -> Optional[Words]:
        """One read of `around`."""
        for before in (_BEFORE, 8, 0):
            for after in (_AFTER, 4):
                raw = self.memory.read(address - before, before + after)
                if raw is not None:
                    return Words(raw, before)
        return None

    def futex(self, thread: Thread) -> FutexWait:
        """What a thread blocked in futex(2) waits on."""
        address, operation, value = thread.args[0], thread.args[1] & 0xFFFFFFFF, thread.args[2] & 0xFFFFFFFF
        words = self.around(address)
        kind, raw = "unknown", None
        if words is not None:
            kind, raw = judge(operation, value, words, self.waiting.get(address, 1), self.tids)
        shared = not operation & sc.FUTEX_PRIVATE
        return FutexWait(
            address=address,
            kind=kind,
            word=None if words is None else words.at(0),
            owner=None if raw is None else self.tids.get(raw),
            shared=shared,
            object=self.memory.object_at(address) if shared else None,
            owner_raw=raw,
        )


class Words:
    """32-bit words around a futex word; `at(8)` is the one 8 bytes after it, None when it was not read."""

    def __init__(self, raw: bytes, before: int) -> None:
        self.raw = raw
        self.before = before

    def at(self, offset: int) -> Optional[int]:
        """The word at an offset from the futex word."""
        place = self.before + offset
        if place < 0 or place + 4 > len(self.raw):
            return None
        value: int = struct.unpack_from("=I", self.raw, place)[0]
        return value

    def same(self, other: Optional[Words]) -> bool:
        """Whether a second look saw what matters unchanged: the word, and what a mutex or rwlock keeps after it."""
        return (
            other is not None and self.before == other.before and self.raw[self.before :] == other.raw[other.before :]
        )


def classify(operation: int, value: int, words: Words, waiting: int, tids: Dict[int, int]) -> Tuple[str, Optional[int]]:
    """(kind, owner as the target numbers it) of a futex wait. `tids` are the numbers of the process's own threads."""
    kind, owner = judge(operation, value, words, waiting, tids)
    return kind, owner if owner in tids else None


def judge(operation: int, value: int, words: Words, waiting: int, tids: Dict[int, int]) -> Tuple[str, Optional[int]]:
    """Like `classify`, but the owner is what the lock says, also when that is no thread of the process."""
    command, private = operation & sc.FUTEX_COMMAND, bool(operation & sc.FUTEX_PRIVATE)
    word = words.at(0) or 0
    if command in (sc.FUTEX_LOCK_PI, sc.FUTEX_LOCK_PI2):
        return "pi-mutex", word & sc.FUTEX_TID or None  # the kernel itself goes by this word
    if command not in (sc.FUTEX_WAIT, sc.FUTEX_WAIT_BITSET):
        return "unknown", None
    mutex = _mutex(value, word, words)
    if mutex is not None:
        return mutex
    if not private and word == value and value in tids:
        return "join", value
    writer = _rwlock_writer(value, word, words, tids) if command == sc.FUTEX_WAIT_BITSET else None
    if writer is not None:
        return "rwlock", writer
    return _ownerless(value, word, words, waiting), None


def _mutex(value: int, word: int, words: Words) -> Optional[Tuple[str, Optional[int]]]:
    owner, users, kind = words.at(sc.MUTEX_OWNER), words.at(sc.MUTEX_USERS), words.at(sc.MUTEX_KIND)
    if owner is None or users is None or kind is None or kind & ~sc.MUTEX_KNOWN_BITS or not 1 <= users < 1 << 20:
        return None
    if kind & sc.MUTEX_ROBUST:
        held = word & sc.FUTEX_TID
        return ("robust-mutex", held) if held and held == owner and value & sc.FUTEX_TID == held else None
    if kind & sc.MUTEX_PI or value != 2 or word != 2 or not owner:
        return None
    return "mutex", owner


def _rwlock_writer(value: int, word: int, words: Words, tids: Dict[int, int]) -> Optional[int]:
    """The writer that holds a rwlock; a reader waits on one of its words and another writer on the next."""
    if value != 3 or word != 3:
        return None
    for waits_at in (sc.RWLOCK_READERS_WAIT, sc.RWLOCK_WRITERS_WAIT):
        readers, owner = words.at(-waits_at), words.at(sc.RWLOCK_OWNER - waits_at)
        if readers is not None and readers & sc.RWLOCK_HELD_BY_WRITER and owner and owner in tids:
            return owner
    return None


def _ownerless(value: int, word: int, words: Words, waiting: int) -> str:
    """Kinds that nobody holds: semaphores (Python's locks) count their waiters after, condition variables before."""
    if value == 0 and word == 0 and words.at(4) == waiting:
        return "semaphore"
    for signals in sc.COND_SIGNALS:
        count = words.at(sc.COND_WAITERS - signals)
        # The low bits of its word count no signals; a rwlock's words of 2 and 3 look the same otherwise.
        if count is not None and waiting <= count >> 3 < 1 << 16 and value == word and not value & 3:
            return "condition"
    return "unknown"
