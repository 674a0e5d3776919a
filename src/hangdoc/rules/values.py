"""What a fact is: seen, with its value, or missing, with the reason; and the subjects that have facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Seen(msgspec.Struct, frozen=True):
    """A value that a probe told. `value` None: it looked and there is none. `before`: at the first look, None if unknown."""

    value: Any
    before: Any = None


class Missing(msgspec.Struct, frozen=True):
    """No value: which probe would have told, why it did not, and what to do."""

    probe: str
    reason: str = "not looked at"
    fix: str = ""


Value = Seen | Missing


class Lines(Protocol):
    """The value of a fact of kind `lines`."""

    def find(self, pattern: str) -> tuple[str, ...]:
        """Some of the lines that the pattern is in."""

    @property
    def complete(self) -> bool:
        """Whether every line was read: only then does "not found" mean that there is none."""


class Subject(Protocol):
    """The launch, a host or a member."""

    @property
    def label(self) -> str:
        """How a sentence names it; empty for the launch."""

    @property
    def places(self) -> Mapping[str, str]:
        """Values for the next steps that are its own: pid, rank, host, path."""

    def get(self, fact: str, name: str = "") -> Value:
        """A fact of it. `name` for families of facts."""


class Who(msgspec.Struct, frozen=True):
    """A member and its part in the launch."""

    subject: Subject
    culprit: bool = False
    victim: bool = False
    rank: bool = True  # a worker or scheduler, or the engine core where there is no worker


class World(msgspec.Struct, frozen=True):
    """All subjects of one launch."""

    launch: Subject
    hosts: tuple[Subject, ...] = ()
    members: tuple[Who, ...] = ()
    complete: bool = True  # every rank that was asked for is among the members
    places: Mapping[str, str] = {}  # values for the next steps: port, root, log, model, address
