"""What is known of each member so far: samples are folded in, in order, and the bounded rest is kept."""

from __future__ import annotations

from typing import Any

from ..engines.profile import Profile
from ..model.deep import DeepStep
from ..model.frozen import replace
from ..model.launch import Launch, Member
from ..model.places import REACH, HostPlace, place_of
from ..model.sample import (
    FileLock,
    HostFacts,
    Machine,
    Network,
    Process,
    Ring,
    Sample,
    Socket,
    Storage,
    Thread,
    Unseen,
)
from . import arrivals, floors
from .memo import Memo
from .stacks import STACK_FRAMES, shortened
from .tracks import ThreadTrack, Tick, Track, merge, moved_channels, thread_place

_STACKS_S = 2.5 * floors.STILL_S  # age of the oldest stacks kept: they are large, and judging looks back `STILL_S`
_DEADLINES = 4  # different deadlines kept per thread: two tell a loop from one wait
_UNSEEN = 512  # blind spots kept
_HELPER_S = 30.0  # a compiler, downloader or helper that ended is forgotten after so long


class History:
    """Everything known of one launch."""

    def __init__(self) -> None:
        self.launch: Launch | None = None
        self.tracks: dict[int, Track] = {}
        self.others: tuple[Launch, ...] | None = None  # other launches on its hosts, as the last scan showed them
        self.samples = 0
        self.first: Sample | None = None
        self.last: Sample | None = None
        self.facts: dict[int, HostFacts] = {}  # of each host by its place, as last told
        self.first_facts: dict[int, HostFacts] = {}  # the same as first told
        self.sockets: list[Socket] = []
        self.sockets_read = False  # a network without any socket is no network that was not read
        self.file_locks: list[FileLock] = []
        self.rings: list[Ring] = []
        self.storage = Storage()  # each part as last seen
        self.networks: list[Network] = []
        self.machines: dict[int, Machine] = {}  # what each host is made of, by its place
        self.unseen: dict[tuple[object, ...], Unseen] = {}
        self.health: dict[int, tuple[float, int | None, str]] = {}  # port -> instant, status, detail
        self.health_silent_since: dict[int, float] = {}
        self.cpu_s = 0.0
        self.wall_s = 0.0
        self.paused_ms: dict[int, float] = {}
        self.deep: list[DeepStep] = []
        self.edges: Memo[list[Any]] = Memo()  # of threads that lead nowhere (waits.py)
        self.links: Memo[Any] = Memo()  # who has which end of what (links.py)
        self.compiled = arrivals.Compiled()
        self._below: dict[int, list[Track]] | None = None  # helpers by their parent, since the last sample
        self.places: tuple[HostPlace, ...] = ()  # hosts, where there are several
        self.lost_since: dict[int, float] = {}  # place -> when it was first missed

    def facts_of(self, pid: int) -> HostFacts | None:
        """Facts of the host that a process runs on."""
        return self.facts.get(place_of(pid))

    @property
    def root_facts(self) -> HostFacts | None:
        """Facts of the host that the root runs on; while it has told none, of the first one that has."""
        return self.facts.get(place_of(self.launch.root) if self.launch else 0) or next(iter(self.facts.values()), None)

    def host_of(self, pid: int) -> str:
        """The host that a process of the launch runs on."""
        place = place_of(pid)
        if place < len(self.places):
            return self.places[place].host
        return self.launch.host if self.launch else ""

    def lost(self, pid: int) -> HostPlace | None:
        """The host of a process, where it cannot be reached any more."""
        place = place_of(pid)
        return self.places[place] if place in self.lost_since else None

    def helpers_below(self, pid: int) -> list[Track]:
        """Living descendants of a process that no start needs: compilers, and what it runs to find something out."""
        if self._below is None:
            self._below = {}
            for track in self.tracks.values():
                if not track.member.needed and track.gone is None:
                    self._below.setdefault(track.process.ppid, []).append(track)
        found: list[Track] = []
        border, seen = [pid], {pid}
        while border:
            reached = [track for one in border for track in self._below.get(one, ()) if track.process.pid not in seen]
            seen.update(track.process.pid for track in reached)
            found += reached
            border = [track.process.pid for track in reached]
        return found

    @property
    def now(self) -> float:
        """Monotonic seconds of the last sample."""
        return self.last.mono if self.last else 0.0

    @property
    def window(self) -> float:
        """Seconds between the first and the last sample."""
        return self.last.mono - self.first.mono if self.first and self.last else 0.0

    def add(self, sample: Sample, launch: Launch) -> None:
        """Fold one sample in; `launch` is what it was recognised as."""
        self.launch, self._below = self._known_launch(launch), None
        self.first = self.first or replace(sample, processes={}, sockets=[], logs=[])  # only its instants are asked for
        self.samples += 1
        looked = "processes" in sample.probes or "scan" in sample.probes
        silent = self._reached(sample)
        children = _children(self.launch)
        self._deaths(sample)
        for pid, member in self.launch.members.items():
            process = sample.processes.get(pid)
            if process is not None and abs(process.start - member.start) < 0.02:
                self._fold(sample, member, process, children.get(pid, set()))
            elif looked and pid in self.tracks and self.tracks[pid].gone is None and place_of(pid) not in silent:
                self.tracks[pid].gone = sample.mono
        if sample.sockets or "sockets" in sample.probes:
            self.sockets = sample.sockets
            self.sockets_read = bool(sample.sockets) or all(one.probe != "sockets" for one in sample.unseen)
        if "fds" in sample.probes:
            self._shared(sample)
        if sample.storage is not None:
            self.storage = replace(self.storage, **{k: v for k, v in vars(sample.storage).items() if v is not None})
            arrivals.mark(self.tracks, self.storage, sample)
        self.networks = sample.networks or self.networks
        self.machines.update(sample.machines_by_place)
        self.facts.update(sample.facts_by_place)
        self.first_facts = {**self.facts, **self.first_facts}
        self._note(sample)
        self._answers(sample)
        self.last = sample
        self._forget(sample.mono)

    def _shared(self, sample: Sample) -> None:
        """What several processes have open. A look at some of them says nothing about what only others have."""
        looked = {pid for pid, one in sample.processes.items() if set(one.fds or ()) - {1, 2}}
        locks = [one for one in self.file_locks if (of := {*one.holders, *one.waiters}) and not of & looked]
        rings = [one for one in self.rings if one.pids and not looked & set(one.pids)]
        told = {(one.device, one.inode) for one in sample.file_locks}
        names = {one.name for one in sample.rings}
        self.file_locks = [*sample.file_locks, *(one for one in locks if (one.device, one.inode) not in told)]
        self.rings = [*sample.rings, *(one for one in rings if one.name not in names)]

    def _reached(self, sample: Sample) -> set[int]:
        """Take note of the hosts. Returns the places of those that the sample tells nothing about."""
        if sample.places:
            self.places = sample.places
        lost = {place for place, one in enumerate(sample.places) if one.lost is not None}
        self.lost_since = {place: self.lost_since.get(place, sample.mono) for place in lost}
        for key in [key for key in self.unseen if key[0] == REACH]:
            del self.unseen[key]  # a host that came back is seen again
        return {place for place, one in enumerate(sample.places) if one.silent}

    def _answers(self, sample: Sample) -> None:
        for answer in sample.health:
            self.health[answer.port] = (sample.mono, answer.status, answer.detail)
            if answer.status == 200:
                self.health_silent_since.pop(answer.port, None)
            else:
                self.health_silent_since.setdefault(answer.port, sample.mono)

    def attach(self, sample: Sample) -> None:
        """Take what a tool of --deep told. It is no look: the judgement stays that of the window before, and another
        one begins with the next look, for an attach wakes threads and ends calls."""
        self.deep += sample.deep
        self._note(sample)
        for pid, track in self.tracks.items():
            new = sample.processes.get(pid)
            if new is not None and abs(new.start - track.process.start) < 0.02:
                old = track.process
                track.process = replace(old, native=new.native or old.native, trace=new.trace or old.trace)
        for step in sample.deep:
            if step.pid in self.tracks:
                self.tracks[step.pid].attached = True

    def _note(self, sample: Sample) -> None:
        for one in sample.unseen:
            self.unseen[one.probe, one.pid or one.host, one.reason] = one
        while len(self.unseen) > _UNSEEN:
            del self.unseen[next(iter(self.unseen))]
        self.cpu_s += sample.cost.cpu_s
        self.wall_s += sample.cost.wall_s
        for pid, paused in sample.cost.paused_ms.items():
            self.paused_ms[pid] = round(self.paused_ms.get(pid, 0.0) + paused, 1)

    def _deaths(self, sample: Sample) -> None:
        for ended in sample.ended:
            track = self.tracks.get(ended.pid)
            if track is None or track.process.start != ended.start:
                continue
            track.died = ended.at
            if ended.status is not None:
                track.process = replace(track.process, exit_code=ended.status)

    def _forget(self, now: float) -> None:
        """Drop helpers that ended: a start that compiles has thousands of them, and nobody asks about them again."""
        launch = self.launch
        if launch is None:
            return
        old = {
            pid
            for pid, track in self.tracks.items()
            if track.gone is not None and now - track.gone > _HELPER_S and not track.member.needed
        }
        old |= {pid for pid, one in launch.members.items() if pid not in self.tracks and not one.needed}
        if not old:
            return
        for pid in old:
            self.tracks.pop(pid, None)
        self.launch = replace(launch, members={pid: one for pid, one in launch.members.items() if pid not in old})

    def _known_launch(self, launch: Launch) -> Launch:
        """The launch with members that were seen before and are missing now: a dead rank stays a member."""
        if self.launch is None:
            return launch
        members = {**self.launch.members}
        for pid, member in launch.members.items():
            old = members.get(pid)
            # A title may go (a zombie has none) but what it told stays true.
            if old is None or old.start != member.start or member.title or not old.title:
                members[pid] = member
        version = launch.version or self.launch.version
        # A node whose root has ended, or whose host is lost, still belongs to the launch; a new one may be the head.
        whole = launch if len(launch.nodes) >= len(self.launch.nodes) else self.launch
        return replace(
            launch,
            host=whole.host,
            root=whole.root if len(launch.nodes) > len(self.launch.nodes) else self.launch.root,
            port=whole.port,
            head=whole.head,
            nodes=whole.nodes,
            nodes_wanted=whole.nodes_wanted,
            members=members,
            args=launch.args or self.launch.args,
            version=version,
            wrappers=launch.wrappers or self.launch.wrappers,
        )

    def _fold(self, sample: Sample, member: Member, process: Process, children: set[int]) -> None:
        track = self.tracks.get(member.pid)
        if track is None or track.process.start != process.start:
            born = sample.mono - (sample.boot - process.start)
            track = Track(member, process, sample.mono, sample.mono, state_since=sample.mono, born=born)
            self.tracks[member.pid] = track
            if member.role == "compiler":
                self.compiled.add(sample.mono)
        elif track.attached:
            known = merge(track.process, process)
            track = Track(member, known, sample.mono, sample.mono, state_since=track.state_since, born=track.born)
            self.tracks[member.pid] = track
        else:
            if track.process.state != process.state:
                track.state_since = sample.mono
            track.process = merge(track.process, process)
        track.member, track.last, track.gone = member, sample.mono, None
        if process.threads is not None:
            self._threads(track, sample.mono, process.threads)
        if process.stacks is not None:
            track.stacks.append((sample.mono, tuple(shortened(one, STACK_FRAMES) for one in process.stacks)))
            while len(track.stacks) > 1 and sample.mono - track.stacks[0][0] > _STACKS_S:
                track.stacks.popleft()
        if process.num_threads is not None:
            self._tick(track, sample, process, children)

    @staticmethod
    def _threads(track: Track, at: float, threads: dict[int, Thread]) -> None:
        track.threads_at = at
        for tid, thread in threads.items():
            place, known = thread_place(thread), track.threads.get(tid)
            since = track.asleep_since(at) if tid == track.process.pid and thread.state != "R" else at
            if known is None:
                known = track.threads[tid] = ThreadTrack(place, since, thread.slices, since, inside=thread)
            else:
                known.looks += 1
                # One look that finds it between two calls is no other place: a loop wakes, and goes back to its wait.
                between = thread.syscall is None and known.blocked
                if known.place != place and (known.between or not between):
                    known.place, known.in_place_since, known.deadlines = place, since, set()
                known.between = between
                if known.place == place:
                    known.inside = thread
                if known.slices != thread.slices or thread.slices is None:
                    known.slices, known.not_run_since = thread.slices, since
            if thread.deadline is not None and len(known.deadlines) < _DEADLINES:
                known.deadlines.add(round(thread.deadline, 2))
        for tid in set(track.threads) - set(threads):
            del track.threads[tid]

    @staticmethod
    def _tick(track: Track, sample: Sample, process: Process, children: set[int]) -> None:
        io = process.io
        tick = Tick(
            sample.mono,
            process.utime + process.stime,
            process.minflt,
            process.majflt,
            process.rss,
            io.read_bytes if io else None,
            io.rchar if io else None,
            io.syscr if io else None,
            process.rss_file,
            io.wchar if io else None,
            process.switches,
        )
        if track.ticks:
            for channel in moved_channels(track.ticks[-1], tick):
                track.moved[channel] = sample.mono
            if children - track.children:
                track.moved["children"] = sample.mono
        track.children |= children
        track.ticks.append(tick)


def package_version(history: History, profile: Profile) -> str | None:
    """The engine's version by the packages that a member can import."""
    for track in history.tracks.values():
        for package in profile.packages:
            if track.process.packages and package in track.process.packages:
                return track.process.packages[package]
    return None


def _children(launch: Launch) -> dict[int, set[int]]:
    """Members by the pid of their parent, helpers left out."""
    found: dict[int, set[int]] = {}
    for pid, member in launch.members.items():
        if member.role != "helper":
            found.setdefault(member.ppid, set()).add(pid)
    return found
