"""What is known of each member so far: samples are folded in, in order, and the bounded rest is kept."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields, replace

from ..engines.profile import Profile
from ..model.launch import Launch, Member
from ..model.sample import FileLock, HostFacts, Process, Ring, Sample, Socket, Stack, Thread, Unseen
from . import floors
from .stacks import STACK_FRAMES, shortened

_STACK_AGE_S = 5.0  # an older stack is not what a thread is doing now
_KEPT = 64  # looks and ticks kept per member
_STACKS_S = 2.5 * floors.STILL_S  # age of the oldest stacks kept: they are large, and judging looks back `STILL_S`
_DEADLINES = 4  # different deadlines kept per thread: two tell a loop from one wait
_UNSEEN = 512  # blind spots kept
_HELPER_S = 30.0  # a compiler, downloader or helper that ended is forgotten after so long
_IDENTITY = {"pid", "ppid", "start", "state", "comm"}


@dataclass(frozen=True)
class Tick:
    """Counters of a member at one instant."""

    at: float  # monotonic seconds of the host
    cpu: float
    faults: int
    major: int
    rss: int | None
    read_bytes: int | None
    rchar: int | None
    syscr: int | None


@dataclass
class ThreadTrack:
    """How long a thread has been in the same blocked call, and how long it has not run at all."""

    place: tuple[object, ...]
    in_place_since: float
    slices: int | None
    not_run_since: float
    deadlines: set[float] = field(default_factory=set)
    looks: int = 1


@dataclass
class Track:
    """One member over time."""

    member: Member
    process: Process
    first: float
    last: float
    ticks: deque[Tick] = field(default_factory=lambda: deque(maxlen=_KEPT))
    stacks: deque[tuple[float, tuple[Stack, ...]]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    threads: dict[int, ThreadTrack] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)  # channel -> last instant at which it moved
    state_since: float = 0.0
    threads_at: float = 0.0  # when its threads were last looked at
    died: float | None = None  # when it ended, where the agent saw it happen
    gone: float | None = None  # when it was first missed
    children: set[int] = field(default_factory=set)

    @property
    def main(self) -> Thread | None:
        """Its main thread, as last seen."""
        return (self.process.threads or {}).get(self.process.pid)

    @property
    def last_stacks(self) -> tuple[Stack, ...]:
        """The last Python stack seen of each thread. A look that stops nothing misses a busy thread now and then."""
        found: dict[tuple[int | None, str], Stack] = {}
        for at, stacks in reversed(self.stacks):
            if self.last - at > _STACK_AGE_S:
                break
            for one in stacks:
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
    first = thread.args[:1] if thread.syscall not in (202, 98) else ()  # a futex address may be reused on the stack
    return (thread.syscall, thread.sp, thread.pc, *first)


def merge(old: Process, new: Process) -> Process:
    """The newer process, with the facts of the older one where the newer look did not ask for them."""
    empty = {one.name: one.default for one in fields(Process) if one.name not in _IDENTITY}
    kept = {name: getattr(old, name) for name, default in empty.items() if getattr(new, name) == default}
    if old.fds and new.fds and set(new.fds) <= {1, 2}:  # a look at its outputs alone
        kept["fds"] = {**old.fds, **new.fds}
    return replace(new, **kept)


class History:
    """Everything known of one launch on one host."""

    def __init__(self) -> None:
        self.launch: Launch | None = None
        self.tracks: dict[int, Track] = {}
        self.samples = 0
        self.first: Sample | None = None
        self.last: Sample | None = None
        self.facts: HostFacts | None = None
        self.first_facts: HostFacts | None = None
        self.sockets: list[Socket] = []
        self.file_locks: list[FileLock] = []
        self.rings: list[Ring] = []
        self.unseen: dict[tuple[object, ...], Unseen] = {}
        self.health: dict[int, tuple[float, int | None, str]] = {}  # port -> instant, status, detail
        self.health_silent_since: dict[int, float] = {}
        self.cpu_s = 0.0
        self.wall_s = 0.0
        self.paused_ms: dict[int, float] = {}

    def helpers_below(self, pid: int) -> list[Track]:
        """Living descendants of a process that no start needs: compilers, and what it runs to find something out."""
        below: dict[int, list[Track]] = {}
        for track in self.tracks.values():
            if not track.member.needed and track.gone is None:
                below.setdefault(track.process.ppid, []).append(track)
        found: list[Track] = []
        border = [pid]
        while border:
            reached = [track for one in border for track in below.pop(one, ())]
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
        self.launch = self._known_launch(launch)
        self.first = self.first or sample
        self.samples += 1
        looked = "processes" in sample.probes or "scan" in sample.probes
        children = _children(self.launch)
        self._deaths(sample)
        for pid, member in self.launch.members.items():
            process = sample.processes.get(pid)
            if process is not None and abs(process.start - member.start) < 0.02:
                self._fold(sample, member, process, children.get(pid, set()))
            elif looked and pid in self.tracks and self.tracks[pid].gone is None:
                self.tracks[pid].gone = sample.mono
        if sample.sockets or "sockets" in sample.probes:
            self.sockets = sample.sockets
        if "fds" in sample.probes:
            self.file_locks, self.rings = sample.file_locks, sample.rings
        self.facts = sample.host_facts or self.facts
        self.first_facts = self.first_facts or self.facts
        for one in sample.unseen:
            self.unseen[one.probe, one.pid, one.reason] = one
        while len(self.unseen) > _UNSEEN:
            del self.unseen[next(iter(self.unseen))]
        self._answers(sample)
        self.cpu_s += sample.cost.cpu_s
        self.wall_s += sample.cost.wall_s
        for pid, paused in sample.cost.paused_ms.items():
            self.paused_ms[pid] = self.paused_ms.get(pid, 0.0) + paused
        self.last = sample
        self._forget(sample.mono)

    def _answers(self, sample: Sample) -> None:
        for answer in sample.health:
            self.health[answer.port] = (sample.mono, answer.status, answer.detail)
            if answer.status == 200:
                self.health_silent_since.pop(answer.port, None)
            else:
                self.health_silent_since.setdefault(answer.port, sample.mono)

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
        return replace(
            launch,
            root=self.launch.root,
            members=members,
            args=launch.args or self.launch.args,
            version=version,
            wrappers=launch.wrappers or self.launch.wrappers,
        )

    def _fold(self, sample: Sample, member: Member, process: Process, children: set[int]) -> None:
        track = self.tracks.get(member.pid)
        if track is None or track.process.start != process.start:
            track = Track(member, process, sample.mono, sample.mono, state_since=sample.mono)
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
            while sample.mono - track.stacks[0][0] > _STACKS_S:
                track.stacks.popleft()
        if process.num_threads is not None:
            self._tick(track, sample, process, children)

    @staticmethod
    def _threads(track: Track, at: float, threads: dict[int, Thread]) -> None:
        track.threads_at = at
        for tid, thread in threads.items():
            place, known = thread_place(thread), track.threads.get(tid)
            if known is None:
                known = track.threads[tid] = ThreadTrack(place, at, thread.slices, at)
            else:
                known.looks += 1
                if known.place != place:
                    known.place, known.in_place_since, known.deadlines = place, at, set()
                if known.slices != thread.slices or thread.slices is None:
                    known.slices, known.not_run_since = thread.slices, at
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
        )
        if track.ticks:
            for channel in moved_channels(track.ticks[-1], tick):
                track.moved[channel] = sample.mono
            if children - track.children:
                track.moved["children"] = sample.mono
        track.children |= children
        track.ticks.append(tick)


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
