"""Good starts with another number of ranks: what they still say, and that they make no bound tighter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis import quantiles
from hangdoc.analysis.nearest import Beside, hold
from hangdoc.engines.load import profiles
from hangdoc.model.baseline import Baseline, BaselineLine, Configuration, Hardware, PhaseTimes, RoleCount, Run
from hangdoc.model.words import Phase

PHASES: tuple[Phase, ...] = ("import", "distributed-init", "weight-load", "post-load", "kv-cache")
TOOK = (10.0, 12.0, 11.0, 10.0, 12.0)


def of(ranks: int, kind: str = "nvidia", cpus: int = 64) -> Configuration:
    args = {"tensor-parallel-size": str(ranks)} if ranks > 1 else {}
    return Configuration("sglang", "0.5", "m", args, Hardware(kind, ranks, cpus))


def held(then: int, now: int, kind: str = "nvidia") -> Beside:
    base = Baseline(
        "good",
        of(then, kind),
        runs=tuple(Run(ready_s=100.0) for _ in TOOK),
        phases=tuple(PhaseTimes(one, (0.0,) * 5, TOOK, None, 12.0, rss=(1, 2, 3, 4, 5)) for one in PHASES),
        lines=(BaselineLine("NCCL is here", "scheduler", TOOK),),
        processes=(RoleCount("scheduler", then), RoleCount("launcher")),
        ports={"launcher": 1, "scheduler": then},
    )
    return hold(base, of(now, kind), profiles()["sglang"])


@pytest.mark.parametrize(
    ("then", "now", "kind", "bounds"),
    [
        (4, 4, "nvidia", dict.fromkeys(PHASES, 42.0)),
        (2, 8, "nvidia", dict.fromkeys(PHASES, 72.0)),
        (8, 2, "nvidia", {"weight-load": 108.0, "post-load": 108.0, "kv-cache": 72.0}),
        (1, 2, "none", {one: 84.0 for one in PHASES if one != "distributed-init"}),
        (2, 1, "none", {"import": 72.0, "weight-load": 84.0}),
    ],
)
def test_what_is_scaled_has_a_reason(then: int, now: int, kind: str, bounds: dict[Phase, float]) -> None:
    """CPUs that more ranks share, and weights that each rank holds; else the bound is only the wider one."""
    beside = held(then, now, kind)
    assert beside.comparable
    for phase, bound in bounds.items():
        assert beside.overdue_after(sorted(TOOK), phase) == pytest.approx(bound)


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from(PHASES), st.sampled_from(("nvidia", "none")))
def test_no_bound_is_tighter_than_that_of_starts_like_this_one(then: int, now: int, phase: Phase, kind: str) -> None:
    beside, took = held(then, now, kind), sorted(TOOK)
    assert beside.overdue_after(took, phase) >= quantiles.overdue_after(took)
    assert beside.overdue_after([100.0]) >= quantiles.overdue_after([100.0])


def test_one_rank_met_nobody_so_it_says_nothing_about_meeting() -> None:
    assert "distributed-init" not in {row.id for row in held(1, 2).baseline.phases}
    assert "distributed-init" in {row.id for row in held(2, 1).baseline.phases}


def test_lines_of_several_ranks_are_not_expected_of_one() -> None:
    assert not held(2, 1).baseline.lines
    assert held(1, 2).baseline.lines
    assert held(2, 4).baseline.lines


def test_there_are_as_many_ranks_to_come_as_were_asked_for() -> None:
    base = held(2, 8).baseline
    assert {one.role: one.processes for one in base.processes} == {"scheduler": 8, "launcher": 1}
    assert base.ports == {"launcher": 1}
    assert not any(row.rss for row in base.phases)


def test_the_difference_is_told_with_what_it_means() -> None:
    def words(then: int, now: int, kind: str = "nvidia") -> str:
        return " ".join(one.words for one in held(then, now, kind).differences)

    assert "tensor parallel size 8 here, 2 then: the same phases" in words(2, 8)
    assert "times as long" not in words(2, 8)
    assert "each rank holds 4.0 times as much" in words(8, 2)
    assert "on these CPUs all of it may take up to 2.0 times as long" in words(1, 2, "none")
    assert "how long ranks take to meet is not known from one" in words(1, 2)
    assert "tensor" not in words(2, 2)


def test_what_was_not_measured_still_says_nothing() -> None:
    for name in ("pipeline-parallel-size", "data-parallel-size"):
        here = replace(of(2), args={**of(2).args, name: "2"})
        assert not hold(Baseline("good", of(2), runs=(Run(ready_s=9.0),)), here, profiles()["sglang"]).comparable
