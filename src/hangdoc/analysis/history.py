"""What is known of each member so far: samples are folded in, in order, and the bounded rest is kept."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields, replace

from ..model.deep import DeepStep
from ..model.launch import Launch, Member
from ..model.sample import FileLock, HostFacts, Process, Ring, Sample, Socket, Stack, Thread, Unseen
from . import floors

_STACK_AGE_S = 5.0  # an older stack is not what a thread is doing now
_KEPT = 64  # looks and ticks kept per member
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
    gone: float | None = None  # when it was first missed
    children: set[int] = field(default_factory=set)
    attached: bool = False  # a tool was attached since the last look: what it stirred up is no movement

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
        self.sockets: list[Socket] = []
        self.file_locks: list[FileLock] = []
        self.rings: list[Ring] = []
        self.unseen: dict[tuple[object, ...], Unseen] = {}
        self.health: dict[int, tuple[float, int | None, str]] = {}  # port -> instant, status, detail
        self.health_silent_since: dict[int, float] = {}
        self._children: dict[int, set[int]] = {}  # members by the pid of their parent, helpers left out
        self.cpu_s = 0.0
        self.wall_s = 0.0
        self.paused_ms: dict[int, float] = {}
        self.deep: list[DeepStep] = []

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
        self._children = {}
        for pid, member in self.launch.members.items():
            if member.role != "helper":
                self._children.setdefault(member.ppid, set()).add(pid)
        looked = "processes" in sample.probes or "scan" in sample.probes
        for pid, member in self.launch.members.items():
            process = sample.processes.get(pid)
            if process is not None and abs(process.start - member.start) < 0.02:
                self._fold(sample, member, process)
            elif looked and pid in self.tracks and self.tracks[pid].gone is None:
                self.tracks[pid].gone = sample.mono
        if sample.sockets or "sockets" in sample.probes:
            self.sockets = sample.sockets
        if "fds" in sample.probes:
            self.file_locks, self.rings = sample.file_locks, sample.rings
        self.facts = sample.host_facts or self.facts
        self._note(sample)
        for answer in sample.health:
            self.health[answer.port] = (sample.mono, answer.status, answer.detail)
            if answer.status == 200:
                self.health_silent_since.pop(answer.port, None)
            else:
                self.health_silent_since.setdefault(answer.port, sample.mono)
        self.last = sample

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
            self.unseen[one.probe, one.pid, one.reason] = one
        self.cpu_s += sample.cost.cpu_s
        self.wall_s += sample.cost.wall_s
        for pid, paused in sample.cost.paused_ms.items():
            self.paused_ms[pid] = round(self.paused_ms.get(pid, 0.0) + paused, 1)

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

    def _fold(self, sample: Sample, member: Member, process: Process) -> None:
        track = self.tracks.get(member.pid)
        if track is None or track.process.start != process.start:
            track = Track(member, process, sample.mono, sample.mono, state_since=sample.mono)
            self.tracks[member.pid] = track
        elif track.attached:
            known = merge(track.process, process)
            track = Track(member, known, sample.mono, sample.mono, state_since=track.state_since)
            self.tracks[member.pid] = track
        else:
            if track.process.state != process.state:
                track.state_since = sample.mono
            track.process = merge(track.process, process)
        track.member, track.last, track.gone = member, sample.mono, None
        if process.threads is not None:
            self._threads(track, sample.mono, process.threads)
        if process.stacks is not None:
            track.stacks.append((sample.mono, tuple(process.stacks)))
        if process.num_threads is not None:
            self._tick(track, sample, process)

    @staticmethod
    def _threads(track: Track, at: float, threads: dict[int, Thread]) -> None:
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
            if thread.deadline is not None:
                known.deadlines.add(round(thread.deadline, 2))
        for tid in set(track.threads) - set(threads):
            del track.threads[tid]

    def _tick(self, track: Track, sample: Sample, process: Process) -> None:
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
        children = self._children.get(process.pid, set())
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
