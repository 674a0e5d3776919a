"""Merging: every run's figures stay in their place, quantiles are of all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis.quantiles import overdue_after, quantile
from hangdoc.baselines.merge import Different, merged
from hangdoc.model.baseline import BaselineLine

from .good import HERE, one_run

times = st.lists(st.floats(0.0, 1e5).map(lambda one: round(one, 2)), min_size=1, max_size=12)


@given(times)
def test_every_run_keeps_its_place(loads: list[float]) -> None:
    found = one_run(load=loads[0])
    for load in loads[1:]:
        found = merged(found, one_run(load=load))
    row = next(one for one in found.phases if one.id == "weight-load")
    assert list(row.duration_s) == loads
    assert row.p95_s is not None
    assert min(loads) <= row.p95_s <= max(loads)
    assert [len(values) for values in row.dwell_s.values()] == [len(loads)] * 2


@given(times, times, times)
def test_merging_is_associative(a: list[float], b: list[float], c: list[float]) -> None:
    x, y, z = (one_run(load=values[0]) for values in (a, b, c))
    assert merged(merged(x, y), z) == merged(x, merged(y, z))


def test_lines_that_only_some_runs_have_are_marked() -> None:
    other = replace(one_run(), lines=(BaselineLine("Load weight begin. avail mem=#", "scheduler", (21.0,)),))
    found = merged(merged(one_run(), other), one_run())
    marks = {line.text: line.first_s for line in found.lines}
    assert marks["Load weight end. elapsed=#"] == (30.0, None, 30.0)
    assert marks["Load weight begin. avail mem=#"] == (20.0, 21.0, 20.0)


def test_warm_and_cold_runs_are_mixed() -> None:
    cold = replace(one_run(), configuration=replace(HERE, caches="cold"))
    cold = replace(cold, runs=(replace(cold.runs[0], caches="cold"),))
    assert merged(one_run(), cold).configuration.caches == "mixed"


@pytest.mark.parametrize(
    "change", [{"model": "n"}, {"version": "0.5.22"}, {"engine": "vllm"}, {"args": {}}, {"hosts": 2}]
)
def test_another_configuration_is_refused(change: dict[str, object]) -> None:
    other = replace(one_run(), configuration=replace(HERE, **change))  # type: ignore[arg-type]
    with pytest.raises(Different, match="another configuration"):
        merged(one_run(), other)


def test_overdue_is_what_the_design_says() -> None:
    assert overdue_after([10.0]) == 70.0  # p95 + 60 s, one run
    assert overdue_after([10.0] * 5) == 40.0  # p95 + 30 s, five runs
    assert overdue_after([540.0]) == 1080.0  # 2 x, one run
    assert overdue_after([500.0, 510.0, 520.0, 530.0, 540.0]) == 810.0  # 1.5 x, five runs
    assert overdue_after([540.0], 2.0) == 2160.0


@given(times)
def test_a_quantile_lies_between_its_neighbours(values: list[float]) -> None:
    values.sort()
    found = [quantile(values, share / 10) for share in range(11)]
    assert found[0] == values[0]
    assert found[-1] == values[-1]
    assert all(a <= b + 1e-6 for a, b in pairwise(found))
