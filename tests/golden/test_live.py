"""Live screens, held as they were last looked at."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from reports import REPORTS, hostile, hung
from syrupy.assertion import SnapshotAssertion

from hangdoc.model.report import RankRow
from hangdoc.model.watching import Moment, PhaseStep
from hangdoc.report import live

WIDTHS = (60, 100, 200)
STEPS = [
    PhaseStep("import", "done", 8.2, 300),
    PhaseStep("config", "done", 0.4, 60),
    PhaseStep("engine-spawn", "done", None, 60),
    PhaseStep("distributed-init", "done", 3.0, 300),
    PhaseStep("weight-load", "done", 75.0, 3600),
    PhaseStep("post-load", "now", 24.0, 180),
    PhaseStep("memory-profile", "next"),
    PhaseStep("kv-cache", "next"),
    PhaseStep("graph-capture", "next"),
    PhaseStep("warmup", "next"),
    PhaseStep("ready", "next"),
]


def suspect() -> Moment:
    report = replace(hung(), verdict="suspect", confidence="hint", retracted=None)
    ranks = [replace(one, since_s=24.0, quiet_s=24.0 if one.rank == "TP3" else 0.5) for one in report.ranks]
    return Moment(
        replace(report, ranks=ranks),
        STEPS,
        ["Loading safetensors: 100%", "[TP0] Load weight end."],
        ["phase weight-load", "phase post-load", "SUSPECT: scheduler TP3 may be stuck"],
        "nothing definite is known, and post-load is not overdue: it would be after 180 s, in 156 s",
        "process 4600, output in /home/me/.local/state/hangdoc/watch-20260101-100000-4599.log",
    )


def moving() -> Moment:
    report = replace(
        hung(),
        verdict="progressing",
        confidence="likely",
        culprits=[],
        retracted="suspect",
        summary="SGLang is starting.",
    )
    ranks = [replace(one, mechanism="computing", quiet_s=0.2) for one in report.ranks]
    return Moment(replace(report, ranks=ranks), STEPS)


def crowd() -> Moment:
    """More ranks than a screen has lines."""
    rows = [RankRow("gpu-17", 5000 + n, "worker", f"TP{n}", "weight-load", "disk-read", 0, 1.0, 0.1) for n in range(64)]
    rows[40] = replace(rows[40], mechanism="stopped", group=7)
    return Moment(replace(hung(), ranks=rows), STEPS)


def foreign() -> Moment:
    """Every text of others tries to harm."""
    return Moment(hostile(), [], ["\x1b[2J\u202e"])


MOMENTS: dict[str, Callable[[], Moment]] = {"suspect": suspect, "moving": moving, "crowd": crowd, "hostile": foreign}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MOMENTS)
def test_live_screen(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    assert live.render(MOMENTS[name](), width=width) == snapshot


@pytest.mark.parametrize("width", [60, 61, 79, 80, 99, 100, 150, 200])
@pytest.mark.parametrize("name", MOMENTS)
def test_it_fits_the_terminal(name: str, width: int) -> None:
    for height in (24, 40, 60):
        lines = live.render(MOMENTS[name](), width=width, height=height).splitlines()
        assert (
            max(sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line) for line in lines) <= width
        )
        assert not any("\x1b" in line or "\u202e" in line for line in lines)


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_makes_a_live_screen(name: str) -> None:
    assert live.render(Moment(REPORTS[name]()), width=80)


def test_one_of_each_picture_has_its_row() -> None:
    assert "TP40" in live.render(crowd(), width=100, height=30)
