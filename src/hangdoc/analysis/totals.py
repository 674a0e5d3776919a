"""Totals of a start beside those of good ones, one sentence each: lines, age, processes, threads, ports, memory. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..model.baseline import Baseline
from . import quantiles
from .ports import listeners
from .view import View

_MUCH = 1.5  # times as many threads, or as much memory, as ever in a good start
_MANY = 8  # more threads than that, so that few do not count


def facts(view: View, base: Baseline, age: float) -> Iterator[str]:
    """What can be counted now and was in good starts. Processes and ports grow during a start: those lists say how many there
    are in the end; threads and memory are told only where there are far more than there ever were."""
    lines = [one.log.lines for one in view.logbook.states.values() if one.log.lines is not None]
    sizes = [one.log.size for one in view.logbook.states.values() if one.log.size is not None]
    then = _waypoints(base)
    if lines and sizes and then:
        yield f"log: {sum(lines)} lines and {sum(sizes):,} bytes now; in good starts {then}"
    times = quantiles.known(one.ready_s for one in base.runs)
    if times:
        yield f"age: {age:.0f} s now; good starts were ready after {_range(times)} s"
    yield from _processes(view, base)
    yield from _ports(view, base)
    yield from _memory(view, base)


def _processes(view: View, base: Baseline) -> Iterator[str]:
    alive = [track for track in view.history.tracks.values() if track.gone is None]
    here = Counter(track.member.role for track in alive)
    for one in base.processes:
        if here[one.role] != one.processes:
            yield f"processes: {here[one.role]} of role {one.role} now, {one.processes} in good starts when ready"
        threads = max((track.process.num_threads or 0 for track in alive if track.member.role == one.role), default=0)
        most = max(quantiles.known(one.threads), default=0)
        if most and threads > max(_MUCH * most, most + _MANY):
            yield f"threads: {threads} of one {one.role} now, at most {most:.0f} in good starts"


def _ports(view: View, base: Baseline) -> Iterator[str]:
    roles: Counter[str] = Counter()
    for pid in listeners(view).values():
        if pid in view.history.tracks:
            roles[view.history.tracks[pid].member.role] += 1
    for role, count in base.ports.items():
        if roles[role] < count and view.history.sockets:
            yield f"ports: {roles[role]} that role {role} listens on now, {count} in good starts when ready"


def _memory(view: View, base: Baseline) -> Iterator[str]:
    now = sum(track.process.rss or 0 for track in view.history.tracks.values() if track.gone is None)
    most = max((value for row in base.phases for value in quantiles.known(row.rss)), default=0)
    if most and now > _MUCH * most:
        yield f"memory: {now / (1 << 30):.1f} GiB resident now, at most {most / (1 << 30):.1f} GiB in good starts"


def _waypoints(base: Baseline) -> str:
    words = []
    for phase in base.phases:
        lines = quantiles.known(phase.lines)
        if lines and phase.id in ("weight-load", "post-load", "kv-cache"):
            words.append(f"{_range(lines)} at the end of {phase.id}")
    total = quantiles.known(one.lines for one in base.runs)
    if total:
        words.append(f"{_range(total)} when ready")
    return ", ".join(words)


def _range(values: Sequence[float]) -> str:
    low, high = f"{values[0]:.0f}", f"{values[-1]:.0f}"
    return low if low == high else f"{low} to {high}"
