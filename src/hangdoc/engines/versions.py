"""Versions and the ranges that data entries carry: ">=0.11,<0.19"."""

from __future__ import annotations

import functools
import re


class RangeError(ValueError):
    """Text that is no version range."""


_PART = re.compile(r"\d+")
_CLAUSE = re.compile(r"\s*(>=|<=|==|<|>)\s*(\d+(?:\.\d+)*)\s*")


@functools.lru_cache(maxsize=1024)
def release(version: str) -> tuple[int, ...]:
    """The release numbers of a version without suffix and local part: "0.5.10.post1+cu12" is (0, 5, 10)."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        found = _PART.match(part)
        if not found:
            break
        numbers.append(int(found.group()))
        if found.end() != len(part):
            break
    return tuple(numbers)


def clauses(ranges: str) -> list[tuple[str, tuple[int, ...]]]:
    """The clauses of a range. Raises RangeError when it is not one."""
    found = []
    for one in filter(None, ranges.split(",")):
        match = _CLAUSE.fullmatch(one)
        if not match:
            raise RangeError(ranges)
        found.append((match[1], release(match[2])))
    return found


@functools.lru_cache(maxsize=4096)
def within(version: str | None, ranges: str) -> bool:
    """Whether the version lies in the range. An unknown version lies in every range, as does one without numbers."""
    numbers = release(version or "")
    if not numbers:
        return True
    for sign, bound in clauses(ranges):
        width = max(len(numbers), len(bound))
        have, want = numbers + (0,) * (width - len(numbers)), bound + (0,) * (width - len(bound))
        if not {">=": have >= want, "<=": have <= want, "==": have == want, "<": have < want, ">": have > want}[sign]:
            return False
    return True
