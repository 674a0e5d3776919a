"""The screen where a golden file would not say why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reports import slow

from hangdoc.model.report import BaselineRow, ProgressRow
from hangdoc.model.words import Verdict
from hangdoc.report import terminal


@pytest.mark.parametrize(
    ("verdict", "kind", "shown"),
    [
        ("slow", "progress", True),
        ("suspect", "work", True),
        ("hung", "progress", False),
        ("hung", "work", False),
        ("hung", "idling", True),
        ("crashed", "progress", False),
    ],
)
def test_a_launch_that_is_stuck_or_ended_shows_nothing_as_moving_but_what_idles(
    verdict: Verdict, kind: str, *, shown: bool
) -> None:
    row = ProgressRow("memory of scheduler TP0", kind, moved=True)  # type: ignore[arg-type]
    screen = terminal.render(replace(slow(), verdict=verdict, progress=[row]), width=100)
    assert ("memory of scheduler TP0" in screen) == shown


def test_how_the_good_starts_differ_is_on_the_first_screen() -> None:
    differs = "tensor parallel size 2 here, 1 then: the same phases"
    facts = ["log: 59 lines now", "age: 117 s now", "ports: 0 now"]
    beside = BaselineRow(
        "good", [differs], runs=3, kind="recorded", overdue_line="a line", overdue_by_s=9.0, facts=facts
    )
    assert differs in terminal.render(replace(slow(), verdict="hung", baseline=beside), width=100)
