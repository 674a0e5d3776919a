"""What closer looks told, in words: many quick looks, native frames, the calls that strace counted. Pure.

They only add to what a member's picture says; no verdict rests on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from ..model.deep import DeepStep, Glance, GlanceThread, Spot, Trace, TracedCall
from ..model.frozen import replace
from ..model.places import own
from ..model.sample import Frame, Stack
from .calls import name_of
from .tracks import Track
from .view import Picture

LOOPS = ("busy-loop", "sleep-loop", "computing", "unknown")  # mechanisms that quick looks say more of
_SHOWN = 3
_NAMED = 2  # threads that a sentence names
_SHARE = 0.03  # a spot seen less often is not told
_VERBS = {"write": "writes to", "pwrite64": "writes to", "read": "reads from", "pread64": "reads from",
          "sendto": "sends to", "recvfrom": "receives from"}  # fmt: skip
_PAUSES = ("clock_nanosleep", "nanosleep", "futex", "sched_yield")
_TOOLS = {"native": "read native stacks", "strace": "watch its system calls"}


def closer(one: Picture, track: Track, arch: str) -> Picture:
    """The picture with what closer looks added to its detail."""
    process = track.process
    parts = [one.detail]
    if process.trace is not None:  # it says all that quick looks can only guess
        parts.append(trace_words(process.trace, one.tid))
    elif process.glance is not None and one.mechanism in LOOPS:
        parts.append(glance_words(process.glance, one.tid, arch))
    parts.append(native_words(native_frames(process.native or (), one.tid)))
    return structs.replace(one, detail="; ".join(part for part in parts if part))


def _fd_words(fd: int | None, target: str) -> str:
    if fd is None:
        return ""
    kind = target.removeprefix("anon_inode:").strip("[]")
    if target.startswith("anon_inode:"):
        return f"an {kind} (fd {fd})" if kind[:1] in "aeiou" else f"a {kind} (fd {fd})"
    return f"{target} (fd {fd})" if target else f"fd {fd}"


def _active(one: GlanceThread) -> float:
    return sum(spot.count for spot in one.spots if spot.ran) + (one.reads or 0) + (one.writes or 0)


def glance_words(glance: Glance, tid: int | None, arch: str) -> str:
    """Where a thread was in many quick looks, and what it read and wrote. The busiest one, when thread `tid` only slept."""
    if not glance.threads:
        return ""
    asked = next((one for one in glance.threads if one.tid == tid), None)
    one = asked if asked is not None and _active(asked) else max(glance.threads, key=_active)
    looks = sum(spot.count for spot in one.spots) or 1
    told = [
        f"{100 * spot.count / looks:.0f} % {_spot_words(spot, arch)}"
        for spot in one.spots
        if spot.count / looks >= _SHARE
    ][:_SHOWN]
    told += _moved_words(glance, one)
    who = "" if one.tid == tid else f"thread {own(one.tid)} ({one.name}): "
    return f"{who}{', '.join(told)} (in {glance.looks} looks within {glance.seconds:.1f} s)"


def _spot_words(spot: Spot, arch: str) -> str:
    if spot.ran:
        return "running"
    if spot.syscall is None:
        return "waiting for memory"
    name = name_of(spot.syscall, arch) or f"system call {spot.syscall}"
    on = _fd_words(spot.fd, spot.target)
    return f"blocked in {name}" + (f" on {on}" if on else "")


def _moved_words(glance: Glance, one: GlanceThread) -> list[str]:
    found = []
    for what, calls, size in (("reads", one.reads, one.read_bytes), ("writes", one.writes, one.written_bytes)):
        rate = (calls or 0) / max(glance.seconds, 0.001)
        if rate < 1 or not calls:
            continue
        each = f"of {size / calls:.0f} bytes each" if size else "that move nothing or fail"
        found.append(f"{rate:,.0f} {what} a second {each}")
    if glance.eventfds and one.writes:
        numbers = ", ".join(map(str, sorted(glance.eventfds)[:_SHOWN]))
        found.append(f"the counter of eventfd {numbers} moves")
    return found


def trace_words(trace: Trace, tid: int | None) -> str:
    """What a loop calls: "8-byte writes to an eventfd (fd 7), 1,000 a second, and nothing else"."""
    asked = [one for one in trace.calls if one.tid == tid]
    busiest = trace.calls[0].tid if trace.calls else None
    mine = asked or [one for one in trace.calls if one.tid == busiest]
    if not mine:
        return f"no system call in {trace.seconds:.1f} s"
    who = "" if mine is asked else f"thread {own(busiest or 0)}: "
    mine = sorted(
        mine, key=lambda one: one.name in _PAUSES
    )  # stable: what it does before how it waits, most frequent first
    shown = [_call_words(one, trace.seconds) for one in mine[:_SHOWN]]
    rest = sum(one.count for one in mine[_SHOWN:])
    end = "and more" if trace.cut else f"and {rest:,} other calls" if rest else "and nothing else"
    return f"{who}{'; '.join(shown)}; {end} (in {trace.seconds:.1f} s of strace)"


def _call_words(one: TracedCall, seconds: float) -> str:
    on = _fd_words(one.fd, one.target)
    if one.name in _VERBS:
        size = f"{one.size}-byte " if one.size is not None else ""
        what = f"{size}{_VERBS[one.name]} {on or 'a descriptor'}"
    else:
        what = one.name + (f" on {on}" if on else "")
    failed = f", all failing with {one.error}" if one.error else ""
    return f"{what}, {one.count / max(seconds, 0.001):,.0f} a second{failed}"


def is_native(frame: Frame) -> bool:
    """Whether a frame is no Python frame: its file is a library, a program, or their source."""
    return not frame.file.startswith("<") and not frame.file.endswith((".py", ".pyc", ".pyx"))


def native_frames(stacks: Sequence[Stack], tid: int | None) -> tuple[Frame, ...]:
    """The native frames further in than the innermost Python frame of a thread, innermost first."""
    frames = next((one.frames for one in stacks if one.tid == tid), ())
    inner = next((at for at, frame in enumerate(frames) if not is_native(frame)), len(frames))
    return frames[:inner]


def native_words(frames: Sequence[Frame]) -> str:
    """The innermost native function, and the one that called into its library."""
    named = [frame for frame in frames if not frame.function.startswith("0x")] or list(frames)
    if not named:
        return ""
    first = named[0]
    words = f"innermost native function {_function(first)}"
    caller = next((frame for frame in named[1:] if frame.file != first.file), None)
    return words + (f", called by {_function(caller)}" if caller else "")


def _function(frame: Frame) -> str:
    return f"{frame.function} ({frame.short or frame.file.rpartition('/')[2]})"


def with_native(one: Picture, track: Track) -> Stack | None:
    """A member's Python stack with its native frames on top; what Python runs below itself is left out."""
    native = native_frames(track.process.native or (), one.tid)
    if not native:
        return one.stack
    if one.stack is None:
        return Stack(one.tid, frames=native)
    return replace(one.stack, frames=(*native, *one.stack.frames))


def alarms(steps: Iterable[DeepStep]) -> list[str]:
    """Threads that are not as they were before --deep."""
    return [f"after --deep ({one.probe}) on process {own(one.pid)}: {what}" for one in steps for what in one.differs]


def told(one: Picture, track: Track) -> list[str]:
    """The detail of a member that is no culprit, where closer looks added to it."""
    process = track.process
    seen = process.glance is not None or process.native is not None or process.trace is not None
    return [f"{one.member.who}: {one.detail}"] if seen else []


def step_reasons(steps: Sequence[DeepStep]) -> list[str]:
    """What --deep did to its targets, one sentence each."""
    found = []
    for one in steps:
        how = "measured" if one.measured else "at most: the whole run of the tool"
        found.append(
            f"--deep stopped process {own(one.pid)} for {one.paused_ms:,.0f} ms ({how}) to {_TOOLS[one.probe]}"
        )
    calls: dict[str, dict[int, set[str]]] = {}
    for one in steps:
        for what in one.interrupted:
            thread, _, call = what.partition(": ")
            calls.setdefault(call, {}).setdefault(one.pid, set()).add(thread)
    for call, by_pid in calls.items():
        who = "; ".join(f"{_threads_words(threads)} of process {own(pid)}" for pid, threads in by_pid.items())
        found.append(f"--deep may have ended {call} early (EINTR) in {who}")
    return found


def _threads_words(threads: set[str]) -> str:
    return ", ".join(sorted(threads)) if len(threads) <= _NAMED else f"{len(threads)} threads"
