"""No text of others reaches a terminal or a page with its power."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from reports import hostile

from hangdoc.report import terminal
from hangdoc.report.safe import clean, clean_lines

anything = st.text(st.characters(), max_size=300)


def test_escapes_are_shown() -> None:
    assert clean("a\x1b[31mb\x07\u202ec\ud800d\te") == r"a\x1b[31mb\x07\u202ec\ud800d  e"


def test_long_text_is_cut() -> None:
    assert clean("x" * 50, 10) == "x" * 9 + "…"
    assert clean("x" * 10, 10) == "x" * 10


@given(anything, st.integers(1, 400))
def test_clean_is_bounded_and_visible(text: str, limit: int) -> None:
    shown = clean(text, limit)
    assert len(shown) <= limit
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode()


@given(anything)
def test_lines_stay_lines(text: str) -> None:
    assert clean_lines(text).count("\n") == text.count("\n")


def test_markup_and_escapes_stay_literal_on_the_screen() -> None:
    shown = terminal.render(hostile(), width=200, verbose=True)
    assert r"\x1b[31mred\x1b[0m [red]x[/red]" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_colour_only_when_asked() -> None:
    assert "\x1b[" in terminal.render(hostile(), width=80, colour=True)
    shown = terminal.render(hostile(), width=80, colour=True)
    assert "\x1b[31mred" not in shown
