"""A baseline as it would be with some of its runs only, or with another number of ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..model.baseline import Baseline
from ..model.frozen import replace
from ..model.words import Phase, Role

_T = TypeVar("_T")
_RANKED: tuple[Role, ...] = ("worker", "scheduler")
_MEETING: Phase = "distributed-init"  # one rank meets nobody


def _caches_of(baseline: Baseline, kept: Sequence[int]) -> str:
    found = {baseline.runs[number].caches for number in kept}
    return found.pop() if len(found) == 1 else "mixed"


def with_caches(baseline: Baseline, wanted: str) -> Baseline:
    """The runs without those that are known to have found their caches otherwise; all of them where none would be left."""
    others = {"warm": "cold", "cold": "warm"}
    kept = [number for number, run in enumerate(baseline.runs) if run.caches != others.get(wanted)]
    if wanted not in others or not kept or len(kept) == len(baseline.runs):
        return baseline

    def pick(values: Sequence[_T]) -> tuple[_T, ...]:
        return tuple(values[number] for number in kept) if values else ()

    return replace(
        baseline,
        configuration=replace(baseline.configuration, caches=_caches_of(baseline, kept)),
        runs=pick(baseline.runs),
        phases=tuple(
            replace(
                row,
                start_s=pick(row.start_s),
                duration_s=pick(row.duration_s),
                dwell_s={label: pick(values) for label, values in row.dwell_s.items()},
                lines=pick(row.lines),
                bytes=pick(row.bytes),
                rss=pick(row.rss),
            )
            for row in baseline.phases
        ),
        lines=tuple(replace(row, first_s=pick(row.first_s)) for row in baseline.lines),
        processes=tuple(replace(row, threads=pick(row.threads)) for row in baseline.processes),
    )


def with_ranks(baseline: Baseline, then: int, now: int) -> Baseline:
    """What good starts of `then` ranks say about one of `now` ranks."""
    if then == now:
        return baseline
    return replace(
        baseline,
        phases=tuple(replace(row, rss=()) for row in baseline.phases if then > 1 or row.id != _MEETING),
        lines=baseline.lines if now > 1 else (),
        processes=tuple(
            replace(row, processes=max(1, row.processes * now // then)) if row.role in _RANKED else row
            for row in baseline.processes
        ),
        ports={role: count for role, count in baseline.ports.items() if role not in _RANKED},
    )
