"""Whether a member moves: progress or work above the noise floors, against idling."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..engines.meanings import meaning
from ..engines.profile import Profile
from ..model.sample import Stack
from . import floors
from .stacks import in_one_place, path_of
from .tracks import Track

# Channels that are work: no stillness, yet no step towards the end either. All others are progress (docs/report.md).
WORK = frozenset({"cpu", "faults", "reads"})


class Movement(msgspec.Struct, frozen=True):
    """What moved within the window."""

    moves: bool | None  # None when CPU time was spent and nobody saw on what
    channels: tuple[str, ...]
    quiet_s: float  # since the last of them


def movement(track: Track, news: float | None, profile: Profile, now: float) -> Movement:
    """Progress and work of a member within the last `STILL_S` seconds. `news`: instant of its last new log line."""
    start = max(now - floors.STILL_S, track.first)
    moved = {name: at for name, at in track.moved.items() if at > start}
    if news is not None and news > start:
        moved["log"] = news
    if len(track.ticks) < 2 and track.born > now - floors.STILL_S:  # nothing else can be told of it after one look
        moved["start"] = track.born
    spent = (track.cpu_rate(start) or 0) > floors.CPU
    worked = _worked(track, profile, start) if spent else False
    if worked:
        moved["cpu"] = now
    if moved:
        return Movement(True, tuple(sorted(moved)), now - max(moved.values()))
    unknown = len(track.ticks) < 2 or (spent and worked is None)
    return Movement(None if unknown else False, (), now - start)


def progress_at(track: Track, news: float | None) -> float | None:
    """Monotonic instant at which a member last made progress, however long ago; `news` is that of its last new log line."""
    times = [at for channel, at in track.moved.items() if channel not in WORK]
    return max([*times, *([news] if news is not None else [])], default=None)


def of_helpers(helpers: Sequence[Track], now: float) -> Movement | None:
    """What moved in processes that a member runs; None when nothing did."""
    since = now - floors.STILL_S
    seen = [at for track in helpers for at in track.moved.values() if at > since]
    if any(compiles(one, since) for one in helpers):
        seen.append(now)
    return Movement(True, ("helpers",), now - max(seen)) if seen else None


def compiles(track: Track, since: float) -> bool:
    """Whether it is a compiler that has been at work since then. Of compilers alone CPU time counts by itself: one unit takes
    minutes of it, with the same memory, and there are no stacks to tell work from a loop."""
    return track.member.role == "compiler" and (track.cpu_rate(since) or 0) > floors.COMPILER


def mostly_idle(track: Track, profile: Profile, tid: int | None, since: float) -> bool:
    """Whether a thread idled by design in at least half of the looks since then: a polling loop, seen between two polls,
    is in some function of its own that means nothing."""
    looks = _looks(track, tid, since)
    idle = sum(meaning(stack, profile).idle for stack in looks)
    return bool(looks) and 2 * idle >= len(looks)


def _looks(track: Track, tid: int | None, since: float) -> list[Stack]:
    return [stack for at, stacks in track.stacks if at >= since for stack in stacks if stack.tid == tid]


def _worked(track: Track, profile: Profile, start: float) -> bool | None:
    """Whether any Python thread spent CPU time over a range of functions since then; None without enough stacks.

    A loop that idles by design ranges over functions, too: its looks do not count.
    """
    seen = [stacks for at, stacks in track.stacks if at >= start]
    if len(seen) < floors.LOOKS:
        return None
    for tid in {stack.tid for stacks in seen for stack in stacks}:
        known = track.threads.get(tid) if tid is not None else None
        slept = known is not None and known.not_run_since <= start
        if slept or mostly_idle(track, profile, tid, start):
            continue
        if not in_one_place([path_of(stack) for stack in _looks(track, tid, start)]):
            return True
    return False
