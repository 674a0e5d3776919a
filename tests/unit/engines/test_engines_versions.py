"""Version ranges."""

from __future__ import annotations

import pytest

from hangdoc.engines.versions import RangeError, clauses, release, within


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.25.1", (0, 25, 1)),
        ("0.5.10.post1", (0, 5, 10)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.11.1rc2.dev12+gabc", (0, 11, 1)),
        ("dev", ()),
    ],
)
def test_release(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(
    ("version", "ranges", "inside"),
    [
        ("0.9.2", ">=0.9.2", True),
        ("0.9.1", ">=0.9.2", False),
        ("0.10", "<0.9", False),
        ("0.14", ">=0.14,<0.19", True),
        ("0.19.0", ">=0.14,<0.19", False),
        ("0.14.0", "==0.14", True),
        ("0.14.1", "<=0.14", False),
        ("0.14.1", ">0.14", True),
        (None, ">=99", True),
        ("unknown", ">=99", True),
        ("1.0", "", True),
    ],
)
def test_within(version: str | None, ranges: str, inside: bool) -> None:
    assert within(version, ranges) is inside


@pytest.mark.parametrize("text", ["0.9", "~=0.9", ">=x", ">= 0.9 <1"])
def test_what_is_no_range_is_an_error(text: str) -> None:
    with pytest.raises(RangeError):
        clauses(text)
