"""Which mechanism keeps a thread where it is, and on what: the first of the questions below that has an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from ..engines.meanings import Meaning
from ..model.places import own
from ..model.sample import Process, Thread
from ..model.words import Mechanism
from . import floors
from .calls import Blocked, blocked_in, name_of, on_disk
from .holders import cycle, holds_gil, lock_mechanism, of_futex, of_gil
from .tracks import Track
from .view import Picture, View

_SLEEPS = ("nanosleep", "clock_nanosleep")


class Scene(msgspec.Struct, frozen=True):
    """One thread with all that is known of it."""

    view: View
    track: Track
    thread: Thread
    means: Meaning
    blocked: Blocked | None
    base: Picture  # with whom it waits for by its frames

    @property
    def call(self) -> str | None:
        """Name of the call that it is blocked in."""
        return name_of(self.thread.syscall, self.view.arch)


def ended(process: Process) -> bool:
    """Whether a process is dead. One whose main thread has ended shows as a zombie, too, while its other threads live on."""
    return process.state == "X" or (process.state == "Z" and (process.num_threads or 1) < 2)


def halted(view: View, track: Track, base: Picture) -> Picture | None:
    """The picture of a member that is stopped, frozen or held by a debugger; None for one that may run."""
    process = track.process
    since = view.history.now - track.state_since
    if process.state == "T":
        return replace(base, mechanism="stopped", detail="every thread of it is stopped by a signal (state T)", moving=False,
                       definite=True, since_s=since)  # fmt: skip
    facts = view.history.facts_of(process.pid)
    cgroup = facts.cgroups.get(process.cgroup) if facts and process.cgroup else None
    if cgroup is not None and cgroup.frozen:
        return replace(base, mechanism="frozen", detail=f"its cgroup {process.cgroup} is frozen", moving=False,
                       definite=True, object=process.cgroup, since_s=since)  # fmt: skip
    if process.state == "t":  # one that strace follows has a tracer, too, and runs
        return replace(base, mechanism="traced", detail=f"a debugger (process {own(process.tracer or 0) or '?'}) holds it",
                       moving=False,
                       object=f"process {own(process.tracer)}" if process.tracer else None, since_s=since)  # fmt: skip
    return None


def explained(view: View, track: Track, thread: Thread, means: Meaning, base: Picture) -> Picture:
    """The picture of a living member with mechanism, detail and object filled in."""
    thread = _in_its_loop(track, thread)
    blocked = blocked_in(thread, track.process, view.sockets, view.arch)
    scene = Scene(view, track, thread, means, blocked, replace(base, waits_for=means.waits_for, idle=means.idle))
    for question in _QUESTIONS:
        answer = question(scene)
        if answer is not None:
            return answer
    if blocked is not None:
        return replace(scene.base, detail=blocked.detail)
    return replace(
        scene.base, detail="neither its system call nor its stack could be read" if blind(track) else "running"
    )


def blind(track: Track) -> bool:
    """Whether nothing says what its main thread does: that it sleeps is all that may be seen of a process of others."""
    thread = track.main
    if thread is None:
        return not track.last_stacks
    return thread.state != "R" and thread.syscall is None and thread.wchan is None and not track.last_stacks


def _with(scene: Scene, found: Blocked, *, definite: bool = False) -> Picture:
    return replace(scene.base, mechanism=found.mechanism, detail=found.detail, object=found.object, definite=definite)


def _lock_with_owner(scene: Scene) -> Picture | None:
    process, history = scene.track.process, scene.view.history
    holder = of_futex(scene.thread, process, history)
    if holder is None:
        return None
    main = scene.thread.tid == process.pid
    if holder.lost:
        words = f"waits for a {holder.what} whose holder is no living thread: nobody can release it"
        return _with(scene, Blocked("lock-wait", words, "nobody"), definite=main and scene.thread.deadline is None)
    way, circle = cycle(scene.thread, process, history)
    who = f"thread {own(holder.tid or 0)} of process {own(holder.pid or 0)}"
    if circle and len(way) == 1:
        words = f"waits for a {holder.what} that it holds itself"
    elif circle:
        words = f"waits in a circle of locks: threads {' -> '.join(str(own(tid)) for tid in (*way, scene.thread.tid))}"
    else:
        words = f"waits for a {holder.what} that {who} holds"
    found = Blocked(lock_mechanism(holder.what, circle=circle, alone=len(way) == 1), words, who)
    return _with(scene, found, definite=circle and main and not _gives_up(way, process))


def _gives_up(way: Sequence[int], process: Process) -> bool:
    """Whether any thread of a circle waits with a time-out, and so may let the others go on."""
    threads = process.threads or {}
    return any(tid in threads and threads[tid].deadline is not None for tid in way)


def _in_kernel(scene: Scene) -> Picture | None:
    if scene.thread.state != "D":
        return None
    what = scene.blocked.detail if scene.blocked else f"wait channel {scene.thread.wchan or 'not readable'}"
    mechanism: Mechanism = "disk-read" if on_disk(scene.thread) else "uninterruptible"
    return replace(
        scene.base, mechanism=mechanism, detail=f"in the kernel, state D: {what}", waits_for=None, idle=False
    )


def _main_ended(scene: Scene) -> Picture | None:
    if scene.thread.state not in "ZX":
        return None
    return _with(scene, Blocked("unknown", "its main thread has ended, other threads of it live on"))


def _output(scene: Scene) -> Picture | None:
    found = scene.blocked
    if found is None or found.mechanism != "pipe-write" or not is_output(scene.thread, scene.track.process):
        return None
    # A reader that is only slow lets the writer run now and then, into the next write at the same place.
    still = _still_s(scene)
    answer = _with(scene, replace(found, detail=f"its output: {found.detail}"), definite=still > 0)
    return replace(answer, since_s=still) if still > 0 else answer


def _still_s(scene: Scene) -> float:
    """Seconds for which the thread is known not to have run at all; 0 where the kernel does not count."""
    known = scene.track.threads.get(scene.thread.tid)
    if known is None or known.slices is None:
        return 0.0
    return scene.view.history.now - max(known.in_place_since, known.not_run_since)


def _for_members(scene: Scene) -> Picture | None:
    return _frames(scene) if scene.base.for_members else None


def _specific_call(scene: Scene) -> Picture | None:
    return _with(scene, scene.blocked) if scene.blocked and scene.blocked.specific else None


def _gil(scene: Scene) -> Picture | None:
    process = scene.track.process
    said = next((stack.tid for stack in scene.track.last_stacks if stack.gil), None)
    if scene.blocked is not None and holds_gil(scene.thread, process, said):
        words = f"{scene.blocked.detail}, with the GIL held: no other Python thread of it can run"
        return _with(scene, Blocked("gil-held", words))
    holder = of_gil(scene.thread, process)
    if holder is None:
        return None
    holding = f"thread {own(holder.tid or 0)}"
    return _with(scene, Blocked("gil-wait", f"waits for the GIL, which {holding} holds", holding))


def _frames(scene: Scene) -> Picture | None:
    if scene.means.mechanism is None:
        return None
    words = f"waits in {scene.means.frame.function}" if scene.means.frame else "waits"
    return _with(scene, Blocked(scene.means.mechanism, words, scene.blocked.object if scene.blocked else None))


def _sleeping(scene: Scene) -> Picture | None:
    if scene.call not in _SLEEPS:
        return None
    if _loops(scene.track, scene.thread):
        return _with(scene, Blocked("sleep-loop", "sleeps, wakes and sleeps again in the code named"))
    return _with(scene, Blocked("sleep", _sleep_detail(scene.view, scene.thread)))


def _looping(scene: Scene) -> Picture | None:
    spent = scene.track.cpu_rate(scene.view.history.now - floors.STILL_S) or 0
    if scene.base.moving is not False or spent <= floors.CPU:
        return None
    return _with(scene, Blocked("busy-loop", "spends CPU time within one place"))


def _other_call(scene: Scene) -> Picture | None:
    found = scene.blocked
    return _with(scene, found) if found is not None and found.mechanism != "unknown" else None


def _idle(scene: Scene) -> Picture | None:
    return _with(scene, Blocked("idle", "idle by design")) if scene.base.idle else None


def _computing(scene: Scene) -> Picture | None:
    if not scene.base.moving or "cpu" not in scene.base.channels:
        return None
    return _with(scene, Blocked("computing", "spends CPU time over a range of functions"))


def _some_lock(scene: Scene) -> Picture | None:
    if scene.call not in ("futex", "futex_waitv"):
        return None
    return _with(scene, Blocked("lock-wait", "waits for a lock or an event whose owner cannot be told from its state"))


# In this order: what is certain by itself, then what names another member, then what the call says, then the frames.
_QUESTIONS: tuple[Callable[[Scene], Picture | None], ...] = (
    _lock_with_owner,
    _main_ended,
    _in_kernel,
    _output,
    _for_members,
    _specific_call,
    _gil,
    _frames,
    _sleeping,
    _looping,
    _other_call,
    _idle,
    _computing,
    _some_lock,
)


def is_output(thread: Thread, process: Process) -> bool:
    """Whether the first argument of its call is a descriptor of the same file as fd 1 or 2."""
    fds = process.fds or {}
    written = fds.get(thread.args[0]) if thread.args else None
    return written is not None and written.inode in {fds[n].inode for n in (1, 2) if n in fds}


def _loops(track: Track, thread: Thread) -> bool:
    known = track.threads.get(thread.tid)
    if known is None:
        return False
    return len(known.deadlines) > 1 or (known.not_run_since > known.in_place_since and known.looks > 2)


def _in_its_loop(track: Track, thread: Thread) -> Thread:
    """A thread that goes round as it was when it waited last, where the last look found it awake for a moment."""
    known = track.threads.get(thread.tid)
    between = known is not None and known.between and _loops(track, thread)
    return known.inside if known is not None and between and known.inside is not None else thread


def _sleep_detail(view: View, thread: Thread) -> str:
    if thread.deadline is None:
        return "sleeps in the code named"
    left = max(0.0, thread.deadline - view.history.now)  # it may be over since the threads were last looked at
    return (
        f"sleeps in the code named, for {left:.0f} s more"
        if left < 10 * 86400
        else "sleeps in the code named, for ever"
    )
