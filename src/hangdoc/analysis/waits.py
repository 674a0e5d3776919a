"""Who waits for whom: an edge from a blocked thread to those that can end its wait, and through what.

Each source of edges below is a small function over what was seen; none guesses. An edge whose other end is not known
has no target. Edges between processes through sockets, pipes and frames are at most likely: an I/O thread may stand
between, and every launch has circles of such edges in good health.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..model.sample import Fd, Socket, Thread
from ..model.words import ROLES, Certainty, Via
from .calls import name_of
from .history import Track
from .holders import of_file, of_futex, of_gil
from .view import Picture, View

_ACCESS = 3  # O_ACCMODE of open flags: 0 reads, 1 writes, 2 both
_VIA_OF_MECHANISM: dict[str, Via] = {"pipe-read": "pipe", "socket-recv": "tcp", "child-wait": "child"}


@dataclass(frozen=True)
class Edge:
    """`pid`/`tid` cannot go on until one of `targets` does (all of them, unless `any`)."""

    pid: int
    tid: int | None
    targets: tuple[tuple[int, int | None], ...]  # empty: nobody is known, or nobody can
    via: Via
    object: str | None = None
    any: bool = False
    deadline_s: float | None = None
    certainty: Certainty = "likely"


@dataclass(frozen=True)
class Scene:
    """Lookups over the whole launch, made once."""

    view: View
    pictures: Mapping[int, Picture]
    readers: dict[int, set[int]] = field(default_factory=dict)  # pipe inode -> pids that have it open for reading
    writers: dict[int, set[int]] = field(default_factory=dict)
    owners: dict[int, set[int]] = field(default_factory=dict)  # socket inode -> pids
    sockets: dict[int, Socket] = field(default_factory=dict)  # inode -> row
    ends: dict[tuple[str, str], int] = field(default_factory=dict)  # (local, remote) of a connection -> inode
    _roles: dict[str, tuple[list[Picture], list[Picture]]] = field(default_factory=dict)

    def of_role(self, role: str) -> tuple[list[Picture], list[Picture]]:
        """Needed members of a role that do not idle (all of them when every one does), and those of them that are in no
        collective."""
        if role not in self._roles:
            everyone = [one for one in self.pictures.values() if one.member.needed and one.member.role == role]
            busy = [one for one in everyone if not one.idle]
            absent = [one for one in busy if one.mechanism not in ("collective", "rendezvous")]
            self._roles[role] = busy or everyone, absent
        return self._roles[role]


def edges_of(view: View, pictures: Sequence[Picture]) -> list[Edge]:
    """Every edge that leaves the thread of interest of a member, and those inside its process that it leads to."""
    scene = _scene(view, {one.member.pid: one for one in pictures})
    found: list[Edge] = []
    for one in pictures:
        if one.member.needed and one.mechanism not in ("dead", "stopped", "frozen", "traced", "idle", "computing"):
            found += _of_member(scene, one)
    return found


def victims(pictures: Sequence[Picture], edges: Sequence[Edge]) -> set[int]:
    """Pids of members that wait for another needed member of the launch, and so are not where a chain ends."""
    needed = {one.member.pid for one in pictures if one.member.needed}
    definite = {one.member.pid for one in pictures if one.definite}
    able = needed - definite
    return {
        edge.pid for edge in edges if edge.pid in able and any(pid in needed - {edge.pid} for pid, _ in edge.targets)
    }


def _scene(view: View, pictures: dict[int, Picture]) -> Scene:
    scene = Scene(view, pictures, sockets=view.sockets())
    for pid, track in view.history.tracks.items():
        for fd in (track.process.fds or {}).values():
            if fd.inode is None:
                continue
            if fd.kind in ("pipe", "fifo") and fd.flags is not None:
                mode = fd.flags & _ACCESS
                if mode in (0, 2):
                    scene.readers.setdefault(fd.inode, set()).add(pid)
                if mode in (1, 2):
                    scene.writers.setdefault(fd.inode, set()).add(pid)
            elif fd.kind == "socket":
                scene.owners.setdefault(fd.inode, set()).add(pid)
    scene.ends.update({(row.local, row.remote): inode for inode, row in scene.sockets.items() if row.remote})
    return scene


def _of_member(scene: Scene, one: Picture) -> Iterator[Edge]:
    track = scene.view.history.tracks[one.member.pid]
    threads = track.process.threads or {}
    inside = list(_along_holders(scene, track, threads.get(one.tid or 0)))
    yield from inside
    last = threads.get(one.tid or 0)
    if inside:
        end = inside[-1].targets[0] if inside[-1].targets else (None, None)
        if end[0] != track.process.pid or end[1] in {edge.tid for edge in inside}:
            return  # the holder is elsewhere, or they wait in a circle: nothing further holds it
        last = threads.get(end[1] or 0)
    yield from _by_frames(scene, one)
    if last is not None:
        yield from _by_call(scene, track, last)


def _along_holders(scene: Scene, track: Track, thread: Thread | None) -> Iterator[Edge]:
    """Edges from a thread to who holds what it waits for, and on to whom that one waits for, within the process."""
    seen: set[int] = set()
    while thread is not None and thread.tid not in seen:
        seen.add(thread.tid)
        holder = of_futex(thread, track.process, scene.view.history) or of_gil(thread, track.process)
        if holder is None:
            return
        targets = ((holder.pid, holder.tid),) if holder.pid is not None else ()
        yield Edge(
            track.process.pid,
            thread.tid,
            targets,
            holder.via,
            holder.what,
            deadline_s=thread.deadline,
            certainty="certain",
        )
        thread = (track.process.threads or {}).get(holder.tid or 0) if holder.pid == track.process.pid else None


def _by_frames(scene: Scene, one: Picture) -> Iterator[Edge]:
    if one.waits_for == "ranks":
        via: Via = "rendezvous" if one.mechanism == "rendezvous" else "collective"
        _, absent = scene.of_role(one.member.role)
        yield _to(
            one, absent, via
        )  # nobody is missing from it: the operation itself is stuck, and nobody is waited for
    elif one.waits_for in ROLES:
        busy, _ = scene.of_role(one.waits_for)
        yield _to(one, busy, _via(one))


def _via(one: Picture) -> Via:
    """What a wait for another member goes through, as far as mechanism and frame tell."""
    if one.means.frame is not None and "shm_broadcast" in one.means.frame.file:
        return "shm-ring"
    return _VIA_OF_MECHANISM.get(one.mechanism, "none")


def _to(one: Picture, targets: Iterable[Picture], via: Via) -> Edge:
    ends = tuple((other.member.pid, other.tid) for other in targets if other is not one)
    return Edge(one.member.pid, one.tid, ends, via)


def _by_call(scene: Scene, track: Track, thread: Thread) -> Iterator[Edge]:
    name = name_of(thread.syscall, scene.view.arch)
    fd = (track.process.fds or {}).get(thread.args[0]) if thread.args else None
    question = _CALLS.get(name or "")
    if question is not None:
        yield from question(scene, track, thread, fd)


def _ends(pid: int, tid: int | None, pids: Iterable[int], via: Via, what: str | None) -> Iterator[Edge]:
    others = tuple((other, None) for other in sorted(pids) if other != pid)
    yield Edge(pid, tid, others, via, what, any=len(others) > 1)


def _read(scene: Scene, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    if fd is None or fd.inode is None:
        return
    if fd.kind in ("pipe", "fifo"):
        yield from _ends(track.process.pid, thread.tid, scene.writers.get(fd.inode, ()), "pipe", fd.target)
    elif fd.kind == "socket":
        yield from _peer(scene, track, thread, fd)


def _write(scene: Scene, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    if fd is None or fd.inode is None:
        return
    if fd.kind in ("pipe", "fifo"):
        yield from _ends(track.process.pid, thread.tid, scene.readers.get(fd.inode, ()), "pipe", fd.target)
    elif fd.kind == "socket":
        yield from _peer(scene, track, thread, fd)


def _peer(scene: Scene, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    """The process at the other end of a socket: by unix peer, or by the same four-tuple seen from its side."""
    row = scene.sockets.get(fd.inode) if fd is not None and fd.inode is not None else None
    if row is None:
        return
    if row.family == "unix":
        owners = scene.owners.get(row.peer, set()) if row.peer else set()
        yield from _ends(track.process.pid, thread.tid, owners, "unix", row.local or None)
        return
    other = scene.ends.get((row.remote, row.local))
    owners = scene.owners.get(other, set()) if other is not None else set()
    yield from _ends(track.process.pid, thread.tid, owners, "tcp", f"{row.local} -> {row.remote}")


def _child(scene: Scene, track: Track, thread: Thread, _: Fd | None) -> Iterator[Edge]:
    children = {pid for pid, other in scene.view.history.tracks.items() if other.process.ppid == track.process.pid}
    named = thread.args[0] if thread.args and 0 < thread.args[0] < 1 << 31 else None
    wanted = children & {named} if named is not None else children
    yield from _ends(track.process.pid, thread.tid, wanted, "child", None)


def _file_lock(scene: Scene, track: Track, thread: Thread, fd: Fd | None) -> Iterator[Edge]:
    lock = of_file(track.process.pid, scene.view.history.file_locks)
    if lock is None:
        return
    via: Via = "flock" if lock.kind == "FLOCK" else "fcntl"
    found = Edge(track.process.pid, thread.tid, (), via, lock.path or (fd.target if fd else None), certainty="certain")
    others = tuple((pid, None) for pid in lock.holders if pid != track.process.pid)
    yield replace(found, targets=others, any=False)


def _vfork(scene: Scene, track: Track, thread: Thread, _: Fd | None) -> Iterator[Edge]:
    children = {pid for pid, other in scene.view.history.tracks.items() if other.process.ppid == track.process.pid}
    yield from _ends(track.process.pid, thread.tid, children, "vfork", None)


_Question = Callable[[Scene, Track, Thread, "Fd | None"], Iterator[Edge]]
_CALLS: dict[str, _Question] = {
    **dict.fromkeys(("read", "readv"), _read),
    **dict.fromkeys(("write", "writev"), _write),
    **dict.fromkeys(("recvfrom", "recvmsg", "sendto", "sendmsg"), _peer),
    **dict.fromkeys(("wait4", "waitid"), _child),
    "vfork": _vfork,
    **dict.fromkeys(("flock", "fcntl"), _file_lock),
}


def chain(edges: Sequence[Edge], start: int, end: int) -> list[Edge]:
    """The shortest way of waits from one process to another, threads of one process taken together; empty when there is none."""
    ways: dict[int, list[Edge]] = {start: []}
    border = [start]
    while border and end not in ways:
        reached = []
        for edge in edges:
            if edge.pid in border:
                for pid, _ in edge.targets:
                    if pid not in ways:
                        ways[pid] = [*ways[edge.pid], edge]
                        reached.append(pid)
        border = reached
    return ways.get(end, [])


def chain_words(way: Sequence[Edge], end: int, labels: Mapping[int, str]) -> str:
    """A way of waits as one sentence: "launcher waits for scheduler TP0 (pipe), which waits for scheduler TP1 (collective)"."""
    after = [edge.pid for edge in way[1:]] + [end]
    words = ""
    for edge, pid in zip(way, after, strict=True):
        through = f" ({edge.via})" if edge.via != "none" else ""
        who = labels.get(edge.pid, f"process {edge.pid}") if not words else "which"
        words += f"{', ' if words else ''}{who} waits for {labels.get(pid, f'process {pid}')}{through}"
    return words
