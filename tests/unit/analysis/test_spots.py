"""Lines are found under the patterns that causes ask for, in short logs and in long ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis import spots as module
from hangdoc.analysis.spots import Spot, Spots

PATTERNS = ("load", r"^a\d+$", r"(?i)Bar\s+x", "x[^y]*z", "(?:one|two) more")
WORDS = st.sampled_from(["load", "a12", "bar", "x", "z", "y", "one more", "BAR  x", ""])
LINES = st.lists(st.lists(WORDS, max_size=4).map(" ".join), max_size=60)


def told(lines: list[str], unread: int) -> dict[str, list[int | None]]:
    """Numbers of the lines under each pattern, asked after every seventh line and at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_UNREAD", unread)
        spots = Spots(lambda: PATTERNS)
        for number, line in enumerate(lines):
            spots.add(Spot(line, number))
            if number % 7 == 0:
                spots.under(PATTERNS[number % len(PATTERNS)])
        return {pattern: [one.pid for one in spots.under(pattern)] for pattern in PATTERNS}


@given(LINES, st.integers(0, 400))
def test_the_first_and_last_lines_are_found_however_much_waits_to_be_read(lines: list[str], unread: int) -> None:
    found = told(lines, unread)
    for pattern in PATTERNS:
        every = [number for number, line in enumerate(lines) if re.search(pattern, line)]
        assert found[pattern] == (every if len(every) <= 16 else every[:8] + every[-8:])


def test_who_asks_for_nothing_gets_nothing() -> None:
    spots = Spots(tuple)
    for _ in range(5000):
        spots.add(Spot("load " * 20, 1))
    assert spots.under("none of it") == []
