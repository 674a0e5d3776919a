"""Put further runs of one configuration into a baseline: every run's figures stay, quantiles are of all of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..analysis.quantiles import known, quantile
from ..model.baseline import Baseline, BaselineLine, PhaseTimes, RoleCount, WaitSignature
from ..model.frozen import replace
from ..model.words import PHASES

MOST_RUNS = 200
_T = TypeVar("_T")
_Row = TypeVar("_Row", PhaseTimes, BaselineLine, RoleCount)


class Different(Exception):
    """The runs are of different configurations; the message says in what they differ."""


def merged(one: Baseline, other: Baseline) -> Baseline:
    """Both baselines as one, under the first one's name. Raises Different where their configurations do not agree."""
    _same(one, other)
    if len(one.runs) + len(other.runs) > MOST_RUNS:
        raise Different(f"more than {MOST_RUNS} runs: record under another name")
    here, there = len(one.runs), len(other.runs)
    caches = {run.caches for run in (*one.runs, *other.runs)}
    found = replace(
        one,
        configuration=replace(one.configuration, caches=caches.pop() if len(caches) == 1 else "mixed"),
        runs=one.runs + other.runs,
        phases=tuple(
            sorted(
                _joined(one.phases, other.phases, lambda row: row.id, _phases, here, there),
                key=lambda row: PHASES.index(row.id),
            )
        ),
        lines=tuple(sorted(_joined(one.lines, other.lines, lambda row: row.text, _lines, here, there), key=_first)),
        processes=tuple(
            sorted(
                _joined(one.processes, other.processes, lambda row: row.role, _roles, here, there),
                key=lambda row: row.role,
            )
        ),
        waits=tuple(sorted({*one.waits, *other.waits}, key=_wait_key)),
    )
    return summed(found)


def summed(one: Baseline) -> Baseline:
    """The baseline with its quantiles told anew from the figures of its runs."""

    def told(row: PhaseTimes) -> PhaseTimes:
        took = known(row.duration_s)
        if not took:
            return replace(row, p50_s=None, p95_s=None)
        return replace(row, p50_s=round(quantile(took, 0.5), 2), p95_s=round(quantile(took, 0.95), 2))

    return replace(one, phases=tuple(told(row) for row in one.phases))


def _same(one: Baseline, other: Baseline) -> None:
    a, b = one.configuration, other.configuration
    pairs = {
        "engine": (a.engine, b.engine),
        "version": (a.version, b.version),
        "model": (a.model, b.model),
        "arguments": (a.args, b.args),
        "hosts": (a.hosts, b.hosts),
        "accelerators": (
            (a.hardware.accelerator, a.hardware.accelerators),
            (b.hardware.accelerator, b.hardware.accelerators),
        ),
        "CPUs": (a.hardware.cpus, b.hardware.cpus),
    }
    wrong = [f"{name} {there} and not {here}" for name, (here, there) in pairs.items() if here != there]
    if wrong:
        raise Different("another configuration: " + "; ".join(wrong))


def _wait_key(row: WaitSignature) -> tuple[str, ...]:
    return row.role, row.phase, row.mechanism, row.function


def _first(row: BaselineLine) -> float:
    times = known(row.first_s)
    return quantile(times, 0.5) if times else float("inf")


def _joined(
    here: Sequence[_Row],
    there: Sequence[_Row],
    key: Callable[[_Row], str],
    join: Callable[[_Row | None, _Row | None, int, int], _Row],
    runs: int,
    more: int,
) -> Iterable[_Row]:
    ours: dict[str, _Row] = {key(row): row for row in here}
    theirs: dict[str, _Row] = {key(row): row for row in there}
    for name in dict.fromkeys((*ours, *theirs)):
        yield join(ours.get(name), theirs.get(name), runs, more)


def _put(a: Sequence[_T | None], b: Sequence[_T | None], runs: int, more: int) -> tuple[_T | None, ...]:
    return (*(a or (None,) * runs), *(b or (None,) * more))


def _phases(a: PhaseTimes | None, b: PhaseTimes | None, runs: int, more: int) -> PhaseTimes:
    x, y = a or PhaseTimes((b or a).id), b or PhaseTimes((a or b).id)  # type: ignore[union-attr]
    labels = sorted({*x.dwell_s, *y.dwell_s})
    return PhaseTimes(
        x.id,
        _put(x.start_s, y.start_s, runs, more),
        _put(x.duration_s, y.duration_s, runs, more),
        dwell_s={label: _put(x.dwell_s.get(label, ()), y.dwell_s.get(label, ()), runs, more) for label in labels},
        lines=_put(x.lines, y.lines, runs, more),
        bytes=_put(x.bytes, y.bytes, runs, more),
        rss=_put(x.rss, y.rss, runs, more),
    )


def _lines(a: BaselineLine | None, b: BaselineLine | None, runs: int, more: int) -> BaselineLine:
    times = _put(a.first_s if a else (), b.first_s if b else (), runs, more)
    return replace(a or b, first_s=times)  # type: ignore[type-var, return-value]


def _roles(a: RoleCount | None, b: RoleCount | None, runs: int, more: int) -> RoleCount:
    threads = _put(a.threads if a else (), b.threads if b else (), runs, more)
    return replace(a or b, threads=threads)  # type: ignore[type-var, return-value]
