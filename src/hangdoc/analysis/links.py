"""Edges through kernel objects: the other ends of pipes and sockets, children, file locks, FIFOs and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

import msgspec

from ..model.places import own
from ..model.sample import Fd, Socket, Thread
from ..model.syscalls import NAMES
from ..model.words import Certainty, Via
from .calls import name_of
from .history import History
from .holders import of_file
from .tracks import Track

_LOOPBACK = ("127.", "[::1]")
_ACCESS = 3  # O_ACCMODE of open flags: 0 reads, 1 writes, 2 both


class Edge(msgspec.Struct, frozen=True):
    """`pid`/`tid` cannot go on until one of `targets` does (all of them, unless `any`)."""

    pid: int
    tid: int | None
    targets: tuple[tuple[int, int | None], ...]  # empty: nobody is known, or nobody can
    via: Via
    object: str | None = None
    any: bool = False
    deadline_s: float | None = None
    certainty: Certainty = "likely"
    leads: bool = True  # on the road of the thread that the start depends on; others are only told


class Links(msgspec.Struct):
    """Who has which end of what, over the whole launch, looked up once."""

    history: History
    arch: str
    readers: dict[int, set[int]] = {}  # pipe inode -> pids that have it open for reading
    writers: dict[int, set[int]] = {}
    owners: dict[int, set[int]] = {}  # socket inode -> pids
    sockets: dict[int, Socket] = {}  # inode -> row
    ends: dict[tuple[str, str], list[Socket]] = {}  # (local, remote) of connections
    children: dict[int, set[int]] = {}

    def __post_init__(self) -> None:
        self.sockets = {row.inode: row for row in self.history.sockets if row.inode}
        for row in self.sockets.values():
            if row.remote and row.family != "unix":
                self.ends.setdefault((row.local, row.remote), []).append(row)
        for pid, track in self.history.tracks.items():
            self.children.setdefault(track.process.ppid, set()).add(pid)
            for fd in (track.process.fds or {}).values():
                self._note(pid, fd)

    def far_end(self, row: Socket) -> Socket | None:
        """The other end of a TCP connection: in the same network namespace, else, unless it is a loopback, in another one.

        The same private addresses may be in use on several hosts: of several rows elsewhere none is taken.
        """
        found = self.ends.get((row.remote, row.local), [])
        near = [one for one in found if one.net_ns == row.net_ns]
        if near or row.local.startswith(_LOOPBACK):
            return near[0] if near else None
        return found[0] if len(found) == 1 else None

    def _note(self, pid: int, fd: Fd) -> None:
        if fd.inode is None:
            return
        if fd.kind == "socket":
            self.owners.setdefault(fd.inode, set()).add(pid)
        elif fd.kind in ("pipe", "fifo") and fd.flags is not None:
            mode = fd.flags & _ACCESS
            if mode in (0, 2):
                self.readers.setdefault(fd.inode, set()).add(pid)
            if mode in (1, 2):
                self.writers.setdefault(fd.inode, set()).add(pid)


def by_call(links: Links, track: Track, thread: Thread) -> Iterator[Edge]:
    """The edge through what the call that a thread is blocked in names; none for a call that names nothing."""
    name = name_of(thread.syscall, links.arch)
    fd = (track.process.fds or {}).get(thread.args[0]) if thread.args else None
    question = _CALLS.get(name or "")
    if question is not None:
        yield from question(links, track, thread, fd)


def _ends(pid: int, tid: int | None, pids: Iterable[int], via: Via, what: str | None) -> Iterator[Edge]:
    others = tuple((other, None) for other in sorted(pids) if other != pid)
    yield Edge(pid, tid, others, via, what, any=len(others) > 1)


def _other_end(
    links: Links, track: Track, thread: Thread, fd: Fd | None, *, pipe_ends: dict[int, set[int]]
) -> Iterator[Edge]:
    """Who has the other end of what is read or written. `pipe_ends`: pipe inode -> pids at that end."""
    if fd is None or fd.inode is None:
        return
    if fd.kind in ("pipe", "fifo"):
        yield from _ends(track.process.pid, thread.tid, pipe_ends.get(fd.inode, ()), "pipe", fd.target)
    elif fd.kind == "socket":
        yield from _peer(links, track, thread, fd)


def _read(links: Links, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    return _other_end(links, track, thread, fd, pipe_ends=links.writers)


def _write(links: Links, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    return _other_end(links, track, thread, fd, pipe_ends=links.readers)


def _peer(links: Links, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    """The process at the other end of a socket: by unix peer, or by the same four-tuple seen from its side."""
    row = links.sockets.get(fd.inode) if fd is not None and fd.inode is not None else None
    if row is None:
        return
    if row.family == "unix":
        owners = links.owners.get(row.peer, set()) if row.peer else set()
        yield from _ends(track.process.pid, thread.tid, owners, "unix", row.local or None)
        return
    other = links.far_end(row)
    owners = links.owners.get(other.inode, set()) if other is not None else set()
    yield from _ends(track.process.pid, thread.tid, owners, "tcp", f"{row.local} -> {row.remote}")


def _child(links: Links, track: Track, thread: Thread, _: Fd | None) -> Iterator[Edge]:
    children = links.children.get(track.process.pid, set())
    named = thread.args[0] if thread.args and 0 < thread.args[0] < 1 << 31 else None
    wanted = {pid for pid in children if own(pid) == named} if named is not None else children
    yield from _ends(track.process.pid, thread.tid, wanted, "child", None)


def _fifo(_links: Links, track: Track, thread: Thread, _: Fd | None) -> Iterator[Edge]:
    if "wait_for_partner" in (thread.wchan or ""):
        yield Edge(track.process.pid, thread.tid, (), "fifo", thread.path)


def _device(_links: Links, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    if fd is not None and fd.kind == "device":
        yield Edge(track.process.pid, thread.tid, (), "device", fd.target)


def _file_lock(links: Links, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    lock = of_file(track.process.pid, links.history.file_locks)
    if lock is None:
        return
    via: Via = "flock" if lock.kind == "FLOCK" else "fcntl"
    holders = tuple((pid, None) for pid in lock.holders if pid != track.process.pid)
    what = lock.path or (fd.target if fd else None)
    yield Edge(track.process.pid, thread.tid, holders, via, what, certainty="certain")


def _vfork(links: Links, track: Track, thread: Thread, _: Fd | None) -> Iterator[Edge]:
    children = links.children.get(track.process.pid, set())
    yield from _ends(track.process.pid, thread.tid, children, "vfork", None)


_Question = Callable[[Links, Track, Thread, "Fd | None"], Iterator[Edge]]
_CALLS: dict[str, _Question] = {
    **dict.fromkeys(("read", "readv"), _read),
    **dict.fromkeys(("write", "writev"), _write),
    **dict.fromkeys(("recvfrom", "recvmsg", "sendto", "sendmsg"), _peer),
    **dict.fromkeys(("wait4", "waitid"), _child),
    **dict.fromkeys(("open", "openat", "openat2"), _fifo),
    "ioctl": _device,
    "vfork": _vfork,
    **dict.fromkeys(("flock", "fcntl"), _file_lock),
}


@cache
def telling(arch: str) -> frozenset[int]:
    """Numbers of the calls through which `by_call` may find an edge."""
    return frozenset(number for number, name in NAMES.get(arch, {}).items() if name in _CALLS)
