"""What threads and processes wait for, with who holds it: parts of a sample. Standard library only and Python 3.8.

`None` always means "not seen". Process and thread ids are numbers of the host's pid namespace unless said otherwise.
"""

from typing import Optional, Tuple

from .frozen import dataclass


@dataclass(frozen=True)
class FutexWait:
    """What a thread blocked in futex(2) waits on. Layouts: glibc pthreadtypes-arch.h, CPython 3.11 to 3.13.

    `python-lock` and `python-rlock` are Python's own; Condition, Event, Queue and Semaphore wait on a `python-lock` too,
    which nobody holds: without an owner it says no more than `semaphore` does.
    """

    address: int
    # mutex | rwlock | join | semaphore | condition | pi-mutex | robust-mutex | python-lock | python-rlock | unknown
    kind: str
    word: Optional[int] = None  # the 32-bit futex word, read twice and equal; None when it could not be read safely
    owner: Optional[int] = None  # tid of the holder on this host, only where kind, users and membership agree
    shared: bool = False
    object: Optional[str] = (
        None  # shared memory that it lies in: "major:minor:inode:offset", the same for all who map it
    )
    # The holder as the lock itself names it, a number of the holder's own pid namespace. With `owner` None it is no
    # thread of this process: it ended, another process holds a shared lock, or the lock was inherited through fork.
    # 0 for a python-rlock whose holder is no thread of this process.
    owner_raw: Optional[int] = None


@dataclass(frozen=True)
class Gil:
    """The GIL of a process while somebody waits for it; read from CPython's own structure and checked."""

    holder: int  # tid
    waiters: Tuple[int, ...]  # tids


@dataclass(frozen=True)
class FileLock:
    """A lock on a file that a member has open, and who waits for it. From `/proc/locks` and `lock:` lines of fdinfo."""

    inode: int
    device: str  # "major:minor", hexadecimal
    kind: str  # FLOCK POSIX OFDLCK
    mode: str  # READ WRITE
    range: str = "0 EOF"  # first and last byte
    path: Optional[str] = None  # as a member's descriptor names it
    holders: Tuple[int, ...] = ()  # pids that have the locked file open; empty when none could be seen
    waiters: Tuple[int, ...] = ()  # pids
    owner: Optional[int] = None  # pid that took it, which may have ended since; None for OFDLCK, which belongs to none


@dataclass(frozen=True)
class Ring:
    """A ring of chunks in shared memory from one writer to many readers, which waits for the slowest of them."""

    name: str  # file below /dev/shm
    layout: str  # which of the known forms fitted
    chunks: int
    chunk_bytes: int
    unread: Tuple[
        int, ...
    ]  # chunks written and not yet read, by reader; the writer blocks when one of them has `chunks`
    pids: Tuple[int, ...] = ()  # members that have it open
