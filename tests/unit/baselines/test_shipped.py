"""Recorded starts held against each other: the second and the third of each are inside what the first one allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangdoc.analysis.nearest import hold
from hangdoc.baselines import store
from hangdoc.engines.load import profiles
from hangdoc.shipped import FOLDERS

RECORDED = [path for path in sorted(FOLDERS["baselines"].glob("*.yaml")) if len(store.read(path).runs) > 1]


def test_there_are_recorded_starts_of_both_engines_cold_and_warm() -> None:
    found = {(one.configuration.engine, one.configuration.caches) for one in map(store.read, RECORDED)}
    assert found >= {(engine, caches) for engine in ("vllm", "sglang") for caches in ("warm", "cold")}


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


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_runs_say_how_they_found_their_caches(path: Path) -> None:
    one = store.read(path)
    assert {run.caches for run in one.runs} == {one.configuration.caches}
    if one.configuration.caches == "cold":
        assert all((run.read_bytes or 0) > 500 << 20 for run in one.runs)
