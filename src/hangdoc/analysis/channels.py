"""The channels on which a launch moves or does not: progress with its time left, work, idling. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ..model.places import place_of
from ..model.report import ProgressRow
from ..model.words import ProgressClass
from . import floors
from .arrivals import compiled_places
from .loading import Loading
from .movement import WORK, progress_at
from .pace import Pace
from .tracks import Track
from .view import Picture, View

_AHEAD = 2  # files by which reading may be ahead of a bar that counts them: one is open, one is begun
_AT_ONCE = "Multi-thread"  # so begins the bar of a loader of either engine that reads several files at once
_LEAST_BYTES = 1 << 20  # of weights: below, nothing has begun
_ONE_CORE = (0.85, 1.3)  # CPU seconds a second of a process that one busy thread explains
_BUSY = 0.5  # CPU seconds a second above which a process computes rather than waits
_STORAGE = 1 << 20  # bytes a second from storage
_PRESSURE = 20.0  # per cent of the time in which something waited for storage


def rows(view: View, pictures: Sequence[Picture]) -> list[ProgressRow]:
    """All channels: of each needed member, of the logs, of compilers."""
    needed = [one for one in pictures if one.member.needed]
    found = [row for one in needed for row in _of_member(view, one)]
    return [*found, *(row for _, row in paced(view)), *_compilers(view), *_cache_files(view), *_chatter(view)]


def since_progress(view: View, behind: Picture | None) -> float | None:
    """Seconds since the member furthest behind made progress, at least; None when nobody is known to be."""
    if behind is None:
        return None
    track = view.history.tracks[behind.member.pid]
    at = progress_at(track, view.logbook.news(behind.member))
    below = [progress_at(one, None) for one in view.history.helpers_below(behind.member.pid)]
    times = [one for one in (at, *below) if one is not None]
    return view.history.now - max(times, default=track.first)


def left(view: View) -> str:
    """What goes on now with its time left, in words; "" when that cannot be known. Of several the one that takes longest;
    n of m, as the engine itself counts, before bytes."""
    now = view.history.last.at if view.history.last else 0.0
    known = [
        (not pace.unit, found.likely, pace) for pace, _ in paced(view) if pace.moved(now) and (found := pace.left(now))
    ]
    if not known:
        return ""
    pace = max(known, key=lambda one: one[:2])[2]
    return f"{pace.label or 'progress bar'}: {pace.words(now)}"


def paced(view: View) -> list[tuple[Pace, ProgressRow]]:
    """Everything that has an end and has not come to it: bars in the log, weights, with rate and time left."""
    now = view.history.last.at if view.history.last else 0.0
    members = view.launch.members
    reads = [
        (load, members[pid], _limit(view, view.history.tracks.get(pid)))
        for pid, load in view.loads.by_pid.items()
        if load.pace.done >= _LEAST_BYTES and pid in members
    ]
    stored = [load for load, _, limit in reads if limit == "storage"]
    found: list[tuple[Pace, ProgressRow]] = []
    writers = [(members.get(pid), one) for pid, one in view.logbook.by_member.items()]
    for member, written in (*writers, (None, view.logbook.others)):
        limit = _limit(view, view.history.tracks.get(member.pid)) if member else ""
        bars = [_of_files(one, view, stored) for one in written.paces.values() if one.total > one.done]
        found += [(one, _row(one, member.label if member else "", limit, now)) for one in bars]
    counted = max((sum(bar.sizes[: max(0, bar.done - _AHEAD)]) for bar, _ in found), default=0)
    for load, member, limit in reads:
        # Less than the bar has counted: the page cache gave a part that no counter tells of.
        pace = load.pace if load.pace.done >= counted else _without_pace(load.pace)
        found.append((pace, _row(pace, member.label, limit, now)))
    fetched = view.loads.download
    if fetched.done and fetched.points:
        found.append((fetched, _row(fetched, "", "", now)))
    return found


def _of_files(bar: Pace, view: View, stored: Sequence[Loading]) -> Pace:
    """A bar that counts the files of a checkpoint, with their sizes: both engines take them in the order of their names.

    It has no pace where storage limits and a rank of those in `stored` has read ahead of it: SGLang reads nine files at
    once and counts none until they are there. A loader of that kind is not believed either when nobody saw it begin.
    """
    if "shards" not in bar.label:
        return bar
    sizes = next((one.sizes for one in view.history.storage.checkpoints or () if len(one.sizes) == bar.total), ())
    ahead, counted = bar.done + _AHEAD, sum(sizes[: bar.done + _AHEAD])
    late = any(one.pace.done > (counted or ahead * one.pace.total / bar.total) > 0 for one in stored)
    if late or (bar.label.startswith(_AT_ONCE) and not all(one.whole for one in stored)):
        bar = _without_pace(bar)
    return replace(bar, sizes=sizes, at_once=bar.label.startswith(_AT_ONCE))


def _without_pace(pace: Pace) -> Pace:
    return replace(pace, points=deque(list(pace.points)[-1:]))


def _row(pace: Pace, who: str, limit: str, now: float) -> ProgressRow:
    known, moved = pace.left(now), pace.moved(now)
    channel = " of ".join(word for word in (pace.label or "bar", who) if word)
    words = pace.words(now) + (f", limited by {limit}" if limit and moved else "")
    low, high, likely = (
        (round(one, 1) for one in (known.low, known.high, known.likely)) if known else (None, None, None)
    )
    return ProgressRow(
        channel, "progress", moved, pace.rate(), f"{pace.unit}/s", likely, words,
        pace.done, pace.total or None, low, high, limit if moved else "",
    )  # fmt: skip


def _limit(view: View, track: Track | None) -> str:
    """What a member goes as fast as, where its own counters show it; "" otherwise."""
    if track is None or len(track.ticks) < floors.LOOKS:
        return ""
    start = view.history.now - floors.STILL_S
    cpu, ticks = track.cpu_rate(start), [one for one in track.ticks if one.at >= start]
    if cpu is None or len(ticks) < 2:
        return ""
    if _throttled(view, track):
        return "the CPU quota of its cgroup"
    if _ONE_CORE[0] <= cpu <= _ONE_CORE[1]:
        return "one CPU core"
    seconds = ticks[-1].at - ticks[0].at
    read = (ticks[-1].read_bytes or 0) - (ticks[0].read_bytes or 0)
    facts = view.history.facts_of(track.member.pid)
    pressure = facts.psi.get("io.some.avg10", 0.0) if facts else 0.0
    states = {track.process.state, *(one.state for one in (track.process.threads or {}).values())}
    waits = "D" in states or pressure >= _PRESSURE
    if cpu < _BUSY and waits and read >= _STORAGE * seconds:
        return "storage"
    return ""


def _throttled(view: View, track: Track) -> bool:
    place, name = place_of(track.member.pid), track.process.cgroup
    now, then = view.history.facts.get(place), view.history.first_facts.get(place)
    if now is None or then is None or name is None or name not in now.cgroups or name not in then.cgroups:
        return False
    spent, before = now.cgroups[name].throttled_s, then.cgroups[name].throttled_s
    return spent is not None and before is not None and spent - before > 0.1 * max(view.history.window, 1.0)


def _of_member(view: View, one: Picture) -> Iterator[ProgressRow]:
    track = view.history.tracks[one.member.pid]
    name, start = f"{one.member.label} ({one.member.where.removeprefix('pid ')})", view.history.now - one.judged_s
    rate = track.cpu_rate(start)
    worked = "cpu" in one.channels
    loops = one.moving is False and (rate or 0) > floors.CPU
    kind: ProgressClass = "work" if worked else "idling"
    spent = "spent in one place" if loops else ""
    yield ProgressRow(f"cpu of {name}", kind, worked or loops, rate, "s/s", detail=spent)
    for channel in one.channels:
        if channel != "cpu":
            yield ProgressRow(f"{channel} of {name}", "work" if channel in WORK else "progress", moved=True)
    halted = one.mechanism in ("stopped", "frozen")  # what ran did so before
    woken = _woken(track, start) if one.moving is False and not halted else 0
    if woken:
        words = f"{woken} of {len(track.threads)} threads woke and went back to the same wait"
        yield ProgressRow(f"wake-ups of {name}", "idling", moved=True, detail=words)


def _woken(track: Track, start: float) -> int:
    """Threads that ran and are where they were: their timed waits ended, or something woke them for nothing."""
    return sum(one.in_place_since <= start < one.not_run_since for one in track.threads.values())


def _compilers(view: View) -> Iterator[ProgressRow]:
    """Compilers that were seen. How many there will be is not known, so there is no time left."""
    compiled, start = view.history.compiled, view.history.now - floors.STILL_S
    if not compiled.seen:
        return
    running = sum(
        one.member.role == "compiler" and one.gone is None and (one.cpu_rate(start) or 0) > floors.CPU
        for one in view.history.tracks.values()
    )
    facts = view.history.root_facts
    cpus = facts.cpus if facts else None
    busy = f" on {cpus} CPUs" if cpus else ""
    limit = "one compiler at a time" if running == 1 and (cpus or 1) > 1 else ""
    words = f"at least {compiled.seen} compilers seen, {running} at work{busy}"
    yield ProgressRow(
        "compilers", "progress", compiled.at[-1] > start, compiled.rate(), "/s", None, words, compiled.seen, limit=limit
    )


def _cache_files(view: View) -> Iterator[ProgressRow]:
    """Files in caches of compiled things; how many there will be is not known."""
    places = compiled_places(view.history.storage)
    if places and view.history.last is not None:
        ago = max(0.0, view.history.last.at - max(one.newest or 0.0 for one in places))
        count = sum(one.files or 0 for one in places)
        more = " or more" if any(one.cut for one in places) else ""
        words = f"{count}{more}, the youngest {ago:.0f} s old"
        yield ProgressRow("files in compilers' caches", "progress", ago <= floors.STILL_S, detail=words, done=count)


def _chatter(view: View) -> Iterator[ProgressRow]:
    at = view.logbook.chatter_at
    if at is not None:
        moved = view.history.now - at <= floors.STILL_S
        yield ProgressRow("log", "idling", moved, detail="lines that only say that something still waits")
