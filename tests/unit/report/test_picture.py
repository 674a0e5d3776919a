"""What is folded, left out or put last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reports import HOST, hung, undecided

from hangdoc.model.report import Place, UnseenRow
from hangdoc.report import picture


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", "vllm/v1/worker/gpu_worker.py"),
        ("/usr/lib/python3/dist-packages/torch/x.py", "torch/x.py"),
        ("/work/patched/sglang/x.py", "/work/patched/sglang/x.py"),
    ],
)
def test_place_is_as_short_as_it_stays_clear(file: str, shown: str) -> None:
    assert picture.place(Place(file, 7, "load")) == f"load ({shown}:7)"


def test_a_sentence_of_the_summary_is_not_said_twice() -> None:
    report = hung()
    repeated = replace(report.culprits[0], detail="waits for a native mutex that it holds itself")
    assert picture.detail(report, repeated) == ""
    assert picture.detail(report, report.culprits[0]) == "It cannot be released by anybody else."


def test_blind_spots_are_folded_and_the_harmless_ones_last() -> None:
    first = UnseenRow(HOST, 1, "environ", "overwritten", "", "variables come from the root")
    report = replace(undecided(), unseen=[first, *undecided().unseen])
    spots = picture.blind_spots(report)
    assert sum(spot.count for spot in spots) == len(report.unseen)
    assert [spot.reason for spot in spots] == ["denied", "tool-missing", "overwritten", "overwritten"]
    assert spots[0].what == "threads, fds, stacks of 8 processes"
    assert spots[2].advice == "Variables come from the root"


def test_victims_are_everybody_else_and_only_when_something_is_stuck() -> None:
    report = hung()
    assert [(one.label, one.count) for one in picture.victims(report)] == [("scheduler TP0-TP2, TP4-TP7", 7)]
    assert picture.victims(replace(report, verdict="slow")) == []
    assert picture.victims(replace(report, culprits=[])) == []
