"""Whether a member moves: progress or work above the noise floors, against idling."""

from __future__ import annotations

from . import floors
from .history import Track
from .logbook import Written
from .stacks import in_one_place, path_of


def movement(track: Track, written: Written, now: float) -> tuple[bool | None, tuple[str, ...], float]:
    """(moves, channels that moved, seconds since the last of them). None when CPU time was spent and nobody saw where."""
    start = max(now - floors.STILL_S, track.first)
    moved = {name: at for name, at in track.moved.items() if at > start}
    if written.last_new is not None and written.last_new > start:
        moved["log"] = written.last_new
    spent = (track.cpu_rate(start) or 0) > floors.CPU
    worked = _worked(track, start) if spent else False
    if worked:
        moved["cpu"] = now
    if moved:
        return True, tuple(sorted(moved)), now - max(moved.values())
    if spent and worked is None:
        return None, (), now - start
    return (False if len(track.ticks) > 1 else None), (), now - start


def _worked(track: Track, start: float) -> bool | None:
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
