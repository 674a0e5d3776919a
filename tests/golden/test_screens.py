"""Whole screens, held as they were last looked at. Refresh after a wanted change: pytest tests/golden --snapshot-update."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from reports import REPORTS, hostile, hung
from syrupy.assertion import SnapshotAssertion

from hangdoc.model.report import PortRow
from hangdoc.report import markdown, terminal

WIDTHS = (60, 80, 120, 200)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", REPORTS)
def test_screen(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    assert terminal.render(REPORTS[name](), width=width) == snapshot


@pytest.mark.parametrize("width", [60, 120])
def test_everything(width: int, snapshot: SnapshotAssertion) -> None:
    assert terminal.render(hung(), width=width, verbose=True) == snapshot


@pytest.mark.parametrize("name", REPORTS)
def test_markdown(name: str, snapshot: SnapshotAssertion) -> None:
    assert markdown.render(REPORTS[name]()) == snapshot


def test_hostile_screen(snapshot: SnapshotAssertion) -> None:
    assert terminal.render(hostile(), width=80) == snapshot


def test_hostile_markdown(snapshot: SnapshotAssertion) -> None:
    assert markdown.render(hostile()) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*REPORTS, "hostile"])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    for verbose in (False, True):
        shown = terminal.render({**REPORTS, "hostile": hostile}[name](), width=width, verbose=verbose)
        assert max(_columns(line) for line in shown.splitlines()) <= width


@pytest.mark.parametrize("name", REPORTS)
def test_one_screen(name: str) -> None:
    assert len(terminal.render(REPORTS[name](), width=100).splitlines()) <= 24


def _columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def test_the_port_of_the_server_comes_before_those_that_members_use_among_themselves() -> None:
    inner = [PortRow("h", port, 7, "LISTEN", None) for port in range(1000, 1030)]
    report = replace(hung(), ports=[*inner, PortRow("h", 8000, None, "not listening", "refused")])
    shown = terminal.render(report, width=100)
    assert shown.index("8000 not listening, health: refused") < shown.index("1000 LISTEN")
    assert "and 29 more" in shown
