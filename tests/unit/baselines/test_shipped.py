"""Recorded starts held against each other: the second and the third of each are inside what the first one allows."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hangdoc.analysis import quantiles
from hangdoc.analysis.nearest import hold
from hangdoc.baselines import store
from hangdoc.engines.load import profiles
from hangdoc.model.baseline import Baseline
from hangdoc.shipped import FOLDERS

RECORDED = [path for path in sorted(FOLDERS["baselines"].glob("*.yaml")) if len(store.read(path).runs) > 1]


def test_there_are_three_recorded_starts_of_both_engines_cold_and_warm_with_one_rank_and_two() -> None:
    of = [one.configuration for one in map(store.read, RECORDED) if len(one.runs) >= 3]
    found = {(one.engine, one.caches, one.args.get("tensor-parallel-size", "1")) for one in of}
    assert found >= set(itertools.product(("vllm", "sglang"), ("warm", "cold"), ("1", "2")))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_each_further_start_is_inside_the_bounds_of_the_first(path: Path) -> None:
    one = store.read(path)
    beside = hold(one, one.configuration, profiles()[one.configuration.engine])
    assert beside.alike
    compared = 0
    for row in one.phases:
        for took in (row.duration_s, *row.dwell_s.values()):
            first, *further = took
            for later in further:
                if first is not None and later is not None:
                    assert later < beside.overdue_after([first], row.id), f"{row.id}: {took}"
                    compared += 1
    ready = [run.ready_s for run in one.runs if run.ready_s is not None]
    assert all(later < beside.overdue_after(ready[:1]) for later in ready[1:])
    assert compared > 20


def ranks_or_caches_differ() -> list[tuple[Baseline, Baseline]]:
    """Recorded starts of one engine, version and model that differ in the number of ranks, in their caches, or in both."""
    every = [store.read(path) for path in RECORDED]
    kinds = [one.name.partition("-tp")[0] for one in every]
    return [
        (one, other)
        for one, a in zip(every, kinds, strict=True)
        for other, b in zip(every, kinds, strict=True)
        if a == b and one is not other
    ]


@pytest.mark.parametrize(("good", "start"), ranks_or_caches_differ(), ids=lambda one: one.name)
def test_starts_with_other_ranks_or_caches_are_inside_the_bounds(good: Baseline, start: Baseline) -> None:
    """Each real start of two ranks against those of one, cold against warm, and back: phase by phase, and as a whole."""
    beside = hold(good, start.configuration, profiles()[start.configuration.engine])
    assert beside.comparable
    assert not beside.alike
    then = {row.id: row for row in beside.baseline.phases}
    compared = 0
    for row in start.phases:
        for label, took in row.dwell_s.items() if row.id in then else ():
            role = label.partition(" ")[0]
            theirs = [values for name, values in then[row.id].dwell_s.items() if name.partition(" ")[0] == role]
            known = quantiles.known(max(one) for one in zip(*theirs, strict=True) if None not in one)
            for now in quantiles.known(took) if known else ():
                assert now < beside.overdue_after(known, row.id), f"{row.id} of {label}: {now} s"
                compared += 1
    ready = [run.ready_s for run in good.runs if run.ready_s is not None]
    assert all((run.ready_s or 0) < beside.overdue_after(sorted(ready)) for run in start.runs)
    assert compared > 20


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_runs_say_how_they_found_their_caches(path: Path) -> None:
    one = store.read(path)
    assert {run.caches for run in one.runs} == {one.configuration.caches}
    if one.configuration.caches == "cold":
        assert all((run.read_bytes or 0) > 500 << 20 for run in one.runs)
