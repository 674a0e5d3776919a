"""Exit statuses are a contract with scripts."""

from __future__ import annotations

import pytest

from hangdoc.cli.exits import FailOn, exit_status
from hangdoc.model.words import Verdict


@pytest.mark.parametrize(
    ("verdict", "fail_on", "lost", "status"),
    [
        ("ready", None, False, 0),
        ("progressing", "slow", True, 0),
        ("slow", None, False, 0),
        ("slow", "suspect", False, 0),
        ("slow", "slow", False, 1),
        ("suspect", None, False, 3),
        ("suspect", None, True, 4),
        ("suspect", "suspect", True, 1),
        ("suspect", "slow", False, 1),
        ("hung", None, True, 1),
        ("crashed", "slow", True, 5),
        ("undecided", "slow", False, 3),
        ("undecided", None, True, 4),
    ],
)
def test_exit_status(verdict: Verdict, fail_on: FailOn | None, lost: bool, status: int) -> None:
    assert exit_status(verdict, fail_on, lost_target=lost) == status
