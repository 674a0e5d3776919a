"""Examples of a cause as a world of facts, and what the cause says to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .engine import compiled
from .facts import FACTS
from .form import Example, KnownCause
from .values import Missing, Seen, Value, Who, World
from .weigh import weigh


class Told(msgspec.Struct, frozen=True):
    """A subject whose facts were written down. Facts that are not given are missing; of a family that is given, names
    that are not given are absent."""

    label: str
    facts: Mapping[str, Any]
    places: Mapping[str, str] = {}

    def get(self, fact: str, name: str = "") -> Value:
        """The fact as it was written down."""
        row = FACTS[fact]
        if fact not in self.facts:
            return Missing(row.probe, "not given")
        value = self.facts[fact]
        if row.named:
            value = value.get(name)
        if row.kind == "lines":
            return Seen(ListedLines(tuple(value or ())))
        return Seen(tuple(value) if isinstance(value, list) else value)


class ListedLines(msgspec.Struct, frozen=True):
    """All lines of a small log."""

    lines: tuple[str, ...]
    complete: bool = True

    def find(self, pattern: str) -> tuple[str, ...]:
        """The lines that the pattern is in."""
        return tuple(line for line in self.lines if compiled(pattern).search(line) is not None)


def world_of(example: Example) -> World:
    """The facts of an example. With no member named the culprit, the first one is."""
    named = any(one.culprit for one in example.members)
    members = tuple(
        Who(
            Told(str(one.facts.get("role", f"member {at}")), one.facts, {"pid": str(4711 + at)}),
            one.culprit or (not named and at == 0),
            one.victim,
            one.rank,
        )
        for at, one in enumerate(example.members)
    )
    hosts = (Told("host", example.host),) if example.host else ()
    return World(Told("", example.launch), hosts, members)


def run(cause: KnownCause, example: Example) -> str:
    """What the cause says: hit, clear or undecided."""
    answer = weigh(cause, world_of(example)).truth
    return "undecided" if answer is None else "hit" if answer else "clear"


def failures(cause: KnownCause) -> list[str]:
    """Examples that do not give what they expect, one sentence each."""
    found = ((one, run(cause, one)) for one in cause.examples)
    return [f"example {one.name!r}: expected {one.expect}, got {got}" for one, got in found if got != one.expect]
