"""Whatever a report holds, every renderer shows it, within the width and without control characters."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from hangdoc import codec
from hangdoc.model.report import Report, StackNode
from hangdoc.model.watching import Moment
from hangdoc.report import live, markdown, terminal

_ALLOWED = {"\n"}
_text = st.text(max_size=40)
_node = st.recursive(
    st.builds(
        StackNode, function=_text, file=_text, line=st.integers(), present=st.lists(_text), absent=st.lists(_text)
    ),
    lambda inner: st.builds(
        StackNode,
        function=_text,
        file=_text,
        line=st.integers(),
        present=st.just([]),
        absent=st.just([]),
        children=st.lists(inner),
    ),
    max_leaves=4,
)
_some = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _invisible(shown: str) -> set[str]:
    return {char for char in shown if unicodedata.category(char) in {"Cc", "Cf", "Cs"}} - _ALLOWED


@_some
@given(st.from_type(Report), st.integers(-5, 300))
def test_screen_of_any_report(report: Report, width: int) -> None:
    for verbose in (False, True):
        shown = terminal.render(report, width=width, verbose=verbose)
        assert not _invisible(shown)
        assert report.verdict.upper() in shown


@_some
@given(st.from_type(Moment), st.integers(-5, 300))
def test_live_screen_of_any_moment(moment: Moment, width: int) -> None:
    shown = live.render(moment, width=width)
    assert not _invisible(shown)
    assert max(cell_len(line) for line in shown.splitlines()) <= max(60, width)


@_some
@given(st.from_type(Report))
def test_markdown_of_any_report(report: Report) -> None:
    shown = markdown.render(report)
    assert not _invisible(shown)
    assert shown.count("<details>") == len(re.findall(r"^</details>$", shown, re.MULTILINE))


@_some
@given(st.builds(Report, stacks=st.lists(_node, max_size=2)))
def test_json_comes_back_as_it_went(report: Report) -> None:
    assert codec.report_from_plain(codec.report_to_plain(report)) == report
