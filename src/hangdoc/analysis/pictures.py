"""One picture per member: phase, mechanism, whom it waits for, and whether it moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..engines.meanings import Meaning, meaning
from ..engines.profile import Profile
from ..engines.roles import title_phase
from ..model.launch import Launch, Member
from ..model.sample import Process, Socket, Stack, Thread
from ..model.words import ROLES, Mechanism, Phase
from . import floors
from .calls import Blocked, blocked_in, name_of, on_disk
from .history import History, Track
from .logbook import Logbook, Written
from .stacks import in_one_place, path_of


@dataclass(frozen=True)
class Picture:
    """What one needed member is doing."""

    member: Member
    phase: Phase | None
    mechanism: Mechanism
    detail: str
    moving: bool | None  # progress or work within the window; None when too little was seen to say
    quiet_s: float  # how long nothing of it has moved, at most the window
    since_s: float | None = None  # how long the thread has been where it is, at least
    object: str | None = None
    tid: int | None = None
    nstid: int | None = None
    stack: Stack | None = None
    means: Meaning = Meaning()  # what that stack says
    waits_for: str | None = None  # as in FrameRule: a role, "ranks", "threads", "children", "clients", "object"
    idle: bool = False  # waits by design for something to do
    definite: bool = False  # a fact that no waiting cures, not yet said to be stable
    channels: tuple[str, ...] = ()  # what moved

    @property
    def victim(self) -> bool:
        """It waits for other members, so it is not where the chain ends."""
        return (self.waits_for == "ranks" or self.waits_for in ROLES) and not self.definite


@dataclass(frozen=True)
class View:
    """All that judging a member needs."""

    history: History
    logbook: Logbook
    profile: Profile
    launch: Launch
    phases: tuple[Phase, ...]
    arch: str

    def written(self, member: Member) -> Written:
        """What this member wrote, empty when nothing is known to be its own."""
        return self.logbook.by_member.get(member.pid, Written())

    def sockets(self) -> dict[int, Socket]:
        """Sockets by inode."""
        return {row.inode: row for row in self.history.sockets if row.inode}


def picture(view: View, track: Track) -> Picture:
    """What the member of `track` is doing, by everything that was seen of it."""
    member, process = track.member, track.process
    thread, stack = thread_of_interest(view, track)
    means = meaning(stack, view.profile) if stack is not None else Meaning()
    moving, channels, quiet = movement(view, track, thread)
    phase = phase_of(view, member, means)
    base = Picture(
        member, phase, "unknown", "", moving, quiet, channels=channels, stack=stack, means=means,
        tid=thread.tid if thread else None, nstid=thread.nstid if thread else None,
    )  # fmt: skip
    if track.gone is not None or process.state in ("Z", "X"):
        return replace(base, mechanism="dead", detail=_death(process), moving=False, definite=True)
    halted = _halted(view, track, base)
    if halted is not None:
        return halted
    if thread is None:
        return replace(base, detail="its threads could not be read", waits_for=means.waits_for, idle=means.idle)
    known = track.threads.get(thread.tid)
    base = replace(base, since_s=view.history.now - known.in_place_since if known else None)
    blocked = blocked_in(thread, process, view.sockets(), view.arch)
    locked = _futex(thread, process)
    if locked is not None:
        return replace(base, mechanism=locked.mechanism, detail=locked.detail, object=locked.object,
                       definite=locked.mechanism in ("mutex-self", "lock-cycle") and thread.tid == process.pid)  # fmt: skip
    return _decide(view, track, thread, means, blocked, base)


def _decide(
    view: View, track: Track, thread: Thread, means: Meaning, blocked: Blocked | None, base: Picture
) -> Picture:
    process = track.process
    if thread.state == "D":
        mechanism: Mechanism = "disk-read" if on_disk(thread) else "uninterruptible"
        what = blocked.detail if blocked else f"wait channel {thread.wchan or 'not readable'}"
        return replace(base, mechanism=mechanism, detail=f"in the kernel, state D: {what}")
    if blocked is not None and blocked.mechanism == "pipe-write" and _is_output(thread, process):
        return replace(base, mechanism="pipe-write", definite=True, object=blocked.object,
                       detail=f"its output: {blocked.detail}")  # fmt: skip
    if blocked is not None and blocked.specific:
        return replace(base, mechanism=blocked.mechanism, detail=blocked.detail, object=blocked.object)
    gil = _gil(track, thread, blocked)
    if gil is not None:
        return replace(base, mechanism=gil.mechanism, detail=gil.detail)
    if means.mechanism is not None:
        detail = f"waits in {means.frame.function}" if means.frame else "waits"
        return replace(base, mechanism=means.mechanism, detail=detail, waits_for=means.waits_for, idle=means.idle,
                       object=blocked.object if blocked else None)  # fmt: skip
    base = replace(base, waits_for=means.waits_for, idle=means.idle)
    if name_of(thread.syscall, view.arch) in ("nanosleep", "clock_nanosleep"):
        return replace(
            base, mechanism="sleep-loop" if _loops(track, thread) else "sleep", detail=_sleep_detail(view, thread)
        )
    if base.moving is False and (track.cpu_rate(view.history.now - floors.STILL_S) or 0) > floors.CPU:
        return replace(base, mechanism="busy-loop", detail="spends CPU time within one place")
    if blocked is not None and blocked.mechanism != "unknown":
        return replace(base, mechanism=blocked.mechanism, detail=blocked.detail, object=blocked.object)
    if base.idle:
        return replace(base, mechanism="idle", detail="idle by design")
    if base.moving and "cpu" in base.channels:
        return replace(base, mechanism="computing", detail="spends CPU time over a range of functions")
    if name_of(thread.syscall, view.arch) == "futex":
        return replace(
            base, mechanism="lock-wait", detail="waits for a lock or an event whose owner cannot be told from its state"
        )
    return replace(base, detail=blocked.detail if blocked else "running")


def thread_of_interest(view: View, track: Track) -> tuple[Thread | None, Stack | None]:
    """The thread that the start depends on: the main one, unless it idles by design while another Python thread is in a
    step of the start (SGLang's warm-up runs in a thread of the launcher)."""
    threads = track.process.threads or {}
    main = threads.get(track.process.pid)
    stacks = {stack.tid: stack for stack in track.last_stacks if stack.tid is not None}
    main_stack = stacks.get(track.process.pid) or next((s for s in track.last_stacks if s.name == "MainThread"), None)
    if main_stack is not None:
        means = meaning(main_stack, view.profile)
        if means.idle:
            for stack in stacks.values():
                other = meaning(stack, view.profile)
                if stack is not main_stack and other.phase is not None and not other.idle and stack.tid in threads:
                    return threads[stack.tid], stack
    return main, main_stack


def movement(view: View, track: Track, thread: Thread | None) -> tuple[bool | None, tuple[str, ...], float]:
    """(moves, channels that moved, seconds since the last of them). None when CPU time was spent and nobody saw where."""
    now, start = view.history.now, max(view.history.now - floors.STILL_S, track.first)
    moved = {name: at for name, at in track.moved.items() if at > start}
    written = view.written(track.member)
    if written.last_new is not None and written.last_new > start:
        moved["log"] = written.last_new
    spent = (track.cpu_rate(start) or 0) > floors.CPU
    worked = _worked(track, start, thread) if spent else False
    if worked:
        moved["cpu"] = now
    if moved:
        return True, tuple(sorted(moved)), now - max(moved.values())
    if spent and worked is None:
        return None, (), now - start
    return (False if len(track.ticks) > 1 else None), (), now - start


def _worked(track: Track, start: float, thread: Thread | None) -> bool | None:
    """Whether CPU time since `start` was spent over a range of functions by any Python thread; None without enough stacks."""
    looks = [(at, stacks) for at, stacks in track.stacks if at >= start]
    if len(looks) < floors.LOOKS:
        return None
    tids = {stack.tid for _, stacks in looks for stack in stacks}
    for tid in tids:
        paths = [path_of(stack) for _, stacks in looks for stack in stacks if stack.tid == tid]
        ran = track.threads.get(tid) if tid is not None else None
        slept = ran is not None and ran.not_run_since <= start
        if not slept and not in_one_place(paths):
            return True
    return False


def phase_of(view: View, member: Member, means: Meaning) -> Phase | None:
    """The furthest phase that its stack, its own log lines or its title put it into; a start only goes forward."""
    written = view.written(member).phase(view.phases)
    titled = title_phase(member.title, view.profile)
    found = [phase for phase in (means.phase, written, titled) if phase is not None and phase in view.phases]
    return max(found, key=view.phases.index) if found else None


def _death(process: Process) -> str:
    if process.exit_code is None:
        return "it ended; how could not be seen"
    number = process.exit_code & 0x7F
    return f"it was killed by signal {number}" if number else f"it ended with status {process.exit_code >> 8}"


def _halted(view: View, track: Track, base: Picture) -> Picture | None:
    process = track.process
    since = view.history.now - track.state_since
    if process.state == "T":
        return replace(base, mechanism="stopped", detail="every thread of it is stopped by a signal (state T)", moving=False,
                       definite=True, since_s=since)  # fmt: skip
    cgroup = view.history.facts.cgroups.get(process.cgroup) if view.history.facts and process.cgroup else None
    if cgroup is not None and cgroup.frozen:
        return replace(base, mechanism="frozen", detail=f"its cgroup {process.cgroup} is frozen", moving=False,
                       definite=True, object=process.cgroup, since_s=since)  # fmt: skip
    if process.state == "t" or process.tracer:
        return replace(base, mechanism="traced", detail=f"a debugger (process {process.tracer or '?'}) holds it", moving=False,
                       object=f"process {process.tracer}" if process.tracer else None, since_s=since)  # fmt: skip
    return None


def _futex(thread: Thread, process: Process) -> Blocked | None:
    """What a futex with a known owner says; the owner's own wait closes a cycle or not."""
    futex = thread.futex
    if futex is None or futex.owner is None:
        return None
    holder = f"thread {futex.owner} of process {process.pid}"
    if futex.owner == thread.tid:
        return Blocked("mutex-self", f"waits for a {futex.kind} that it holds itself", holder)
    seen, at = [thread.tid], futex.owner
    while at not in seen:
        seen.append(at)
        other = (process.threads or {}).get(at)
        if other is None or other.futex is None or other.futex.owner is None:
            return Blocked("lock-wait", f"waits for a {futex.kind} that {holder} holds", holder)
        at = other.futex.owner
    if at == thread.tid:
        return Blocked(
            "lock-cycle", f"waits in a circle of locks: threads {' -> '.join(map(str, [*seen, at]))}", holder
        )
    return Blocked("lock-wait", f"waits for {holder}, which is in a circle of locks", holder)


def _is_output(thread: Thread, process: Process) -> bool:
    fds = process.fds or {}
    written = fds.get(thread.args[0]) if thread.args else None
    return written is not None and written.inode in {fds[n].inode for n in (1, 2) if n in fds}


def _gil(track: Track, thread: Thread, blocked: Blocked | None) -> Blocked | None:
    holder = next((stack for stack in track.last_stacks if stack.gil), None)
    if holder is None or blocked is None:
        return None
    if holder.tid == thread.tid:
        return Blocked("gil-held", f"{blocked.detail}, with the GIL held: no other Python thread of it can run")
    return None


def _loops(track: Track, thread: Thread) -> bool:
    known = track.threads.get(thread.tid)
    if known is None:
        return False
    return len(known.deadlines) > 1 or (known.not_run_since > known.in_place_since and known.looks > 2)


def _sleep_detail(view: View, thread: Thread) -> str:
    if thread.deadline is None:
        return "sleeps in the code named"
    left = thread.deadline - view.history.now
    return (
        f"sleeps in the code named, for {left:.0f} s more"
        if left < 10 * 86400
        else "sleeps in the code named, for ever"
    )
