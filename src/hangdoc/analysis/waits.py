"""Who waits for whom: an edge from a blocked thread to those that can end its wait, and through what.

Each source of edges below is a small function over what was seen; none guesses. An edge whose other end is not known
has no target. Edges between processes through sockets, pipes and frames are at most likely: an I/O thread may stand
between, and every launch has circles of such edges in good health.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ..model.places import own
from ..model.sample import Thread
from ..model.words import ROLES, Via
from .holders import of_futex, of_gil
from .links import Edge, Links, by_call, telling
from .nodes import by_member
from .tracks import Track
from .view import Picture, View

_TOLD = 64  # edges of other threads told per process: a pool behind one lock is one finding
_VIA_OF_MECHANISM: dict[str, Via] = {"pipe-read": "pipe", "socket-recv": "tcp", "child-wait": "child"}


class Scene(msgspec.Struct, frozen=True):
    """Pictures by pid, with the links between their processes."""

    view: View
    pictures: Mapping[int, Picture]
    links: Links
    nodes: Mapping[int, int]  # member -> its node, in a launch over several
    _roles: dict[tuple[str, int | None], tuple[list[Picture], list[Picture]]] = {}

    def of_role(self, role: str, node: int | None = None) -> tuple[list[Picture], list[Picture]]:
        """Needed members of a role that do not idle (all of them when every one does), and those of them that are in no
        collective. `node`: only of that node, where it has any."""
        if (role, node) not in self._roles:
            everyone = [one for one in self.pictures.values() if one.member.needed and one.member.role == role]
            groups: dict[int | None, list[Picture]] = {}
            for one in everyone:
                groups.setdefault(self.nodes.get(one.member.pid), []).append(one)
            for key, group in groups.items():
                self._roles[role, key] = _busy(group)
            self._roles[role, None] = _busy(everyone)
            self._roles.setdefault((role, node), self._roles[role, None])
        return self._roles[role, node]


def _busy(everyone: list[Picture]) -> tuple[list[Picture], list[Picture]]:
    busy = [one for one in everyone if not one.idle]
    return busy or everyone, [one for one in busy if one.mechanism not in ("collective", "rendezvous")]


def edges_of(view: View, pictures: Sequence[Picture]) -> list[Edge]:
    """Edges that leave the thread of interest of each needed member and those inside its process that it leads to; then
    those of other threads that wait for a holder or in a plain call, which name objects but no culprit."""
    ends: list[object] = [view.arch, view.history.sockets]
    for track in view.history.tracks.values():
        ends += [track.process.pid, track.process.ppid, track.process.fds]
    links = view.history.links.get(ends, lambda: Links(view.history, view.arch))
    scene = Scene(view, {one.member.pid: one for one in pictures}, links, by_member(view.launch))
    found: list[Edge] = []
    for one in pictures:
        if one.member.needed and one.mechanism not in ("dead", "stopped", "frozen", "traced", "idle", "computing"):
            found += _of_member(scene, one)
    known = {(edge.pid, edge.tid) for edge in found}
    others = view.history.edges.get(_made_of(view), lambda: list(_of_other_threads(scene)))
    return found + [edge for edge in others if (edge.pid, edge.tid) not in known]


def _made_of(view: View) -> list[object]:
    """All that edges of other threads depend on."""
    history = view.history
    of: list[object] = [view.arch, history.sockets, history.file_locks]
    for track in history.tracks.values():
        one = track.process
        of += [one.pid, one.ppid, one.threads, one.fds, one.gil, one.shared]
    return of


def _of_other_threads(scene: Scene) -> Iterator[Edge]:
    calls = telling(scene.view.arch)
    for track in scene.view.history.tracks.values():
        told: list[Edge] = []
        queue = track.process.gil.waiters if track.process.gil is not None else ()
        for tid, thread in (track.process.threads or {}).items():
            if len(told) >= _TOLD:
                break
            futex = thread.futex
            locked = futex is not None and (futex.owner is not None or futex.owner_raw is not None)
            if not locked and tid not in queue and thread.syscall not in calls:
                continue  # most of a thousand threads wait for nobody who could be named
            holder = next(_along_holders(scene, track, thread), None)
            told += [holder] if holder is not None else by_call(scene.links, track, thread)
        yield from (replace(edge, leads=False) for edge in told)


def victims(pictures: Sequence[Picture], edges: Sequence[Edge]) -> set[int]:
    """Pids of members that wait for another needed member of the launch, and so are not where a chain ends."""
    needed = {one.member.pid for one in pictures if one.member.needed}
    definite = {one.member.pid for one in pictures if one.definite}
    able = needed - definite
    return {
        edge.pid
        for edge in edges
        if edge.leads and edge.pid in able and any(pid in needed - {edge.pid} for pid, _ in edge.targets)
    }


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
        yield from by_call(scene.links, track, last)


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
        absent = [other for other in absent if not other.lost]
        yield _to(
            one, absent, via
        )  # nobody is missing from it: the operation itself is stuck, and nobody is waited for
    elif one.waits_for in ROLES:
        busy, _ = scene.of_role(one.waits_for, scene.nodes.get(one.member.pid))  # a launcher waits for its own node
        yield _to(one, busy, _via(one))


def _via(one: Picture) -> Via:
    """What a wait for another member goes through, as far as mechanism and frame tell."""
    if one.means.frame is not None and "shm_broadcast" in one.means.frame.file:
        return "shm-ring"
    return _VIA_OF_MECHANISM.get(one.mechanism, "none")


def _to(one: Picture, targets: Iterable[Picture], via: Via) -> Edge:
    ends = tuple((other.member.pid, other.tid) for other in targets if other is not one)
    return Edge(one.member.pid, one.tid, ends, via)


def chain(edges: Sequence[Edge], start: int, end: int) -> list[Edge]:
    """The shortest way of waits from one process to another, threads of one process taken together; empty when there is none."""
    ways: dict[int, list[Edge]] = {start: []}
    border = [start]
    while border and end not in ways:
        reached = []
        for edge in edges:
            if edge.leads and edge.pid in border:
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
        who = labels.get(edge.pid, f"process {own(edge.pid)}") if not words else "which"
        words += f"{', ' if words else ''}{who} waits for {labels.get(pid, f'process {own(pid)}')}{through}"
    return words
