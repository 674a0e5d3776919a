"""Words and numbers for people."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model import words
from hangdoc.report import wording


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (wording.VERDICT_WORDS, words.Verdict),
        (wording.CERTAINTY_WORDS, words.Certainty),
        (wording.MECHANISM_WORDS, words.Mechanism),
        (wording.PHASE_WORDS, words.Phase),
        (wording.REASON_WORDS, words.UnseenReason),
        (wording.LOG_VIA_WORDS, words.LogVia),
    ],
)
def test_every_word_of_a_closed_list_is_explained(table: dict[str, str], kind: object) -> None:
    assert tuple(table) == get_args(kind)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "unknown"),
        (-3, "0.0 s"),
        (0.44, "0.4 s"),
        (12.4, "12 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (4800, "1 h 20 min"),
        (183600, "2 d 3 h"),
    ],
)
def test_duration(seconds: float | None, said: str) -> None:
    assert wording.duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "unknown"), (512, "512 B"), (1536, "1.5 KiB"), (3_400_000_000, "3.2 GiB"), (1 << 70, "1048576 PiB")],
)
def test_size(count: int | None, said: str) -> None:
    assert wording.size(count) == said


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], ""),
        (["TP0"], "TP0"),
        (["TP1", "TP0", "TP2", "TP10", "TP11"], "TP0-TP2, TP10-TP11"),
        (["PP0 TP0", "PP0 TP1", "PP1 TP0"], "PP0 TP0-TP1, PP1 TP0"),
        (["TP3", "TP3"], "TP3"),
        (["host07", "host08"], "host07-host08"),
        (["", "x"], ", x"),
    ],
)
def test_fold_labels(labels: list[str], said: str) -> None:
    assert wording.fold_labels(labels) == said


@given(st.sets(st.integers(0, 300), min_size=1))
def test_folding_loses_nobody(numbers: set[int]) -> None:
    members: set[int] = set()
    for part in wording.fold_labels(f"TP{number}" for number in numbers).split(", "):
        ends = [int(end.removeprefix("TP")) for end in part.split("-")]
        members |= set(range(ends[0], ends[-1] + 1))
    assert members == numbers


@given(st.floats(allow_nan=False, min_value=0, max_value=1e9))
def test_duration_is_short(seconds: float) -> None:
    assert len(wording.duration(seconds)) <= 14
