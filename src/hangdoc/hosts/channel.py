"""A channel carries questions to an agent and samples back; a reach holds the agents of several hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..model.ask import Ask
from ..model.frozen import dataclass
from ..model.sample import Sample
from ..model.words import UnseenReason

RETRY_S = 10.0  # between two attempts to reach lost hosts again


class ChannelError(Exception):
    """The host could not be reached, or its agent ended. `last_words` is what the other side said last."""

    def __init__(self, message: str, last_words: str = "") -> None:
        super().__init__(message)
        self.last_words = last_words


class Channel(Protocol):
    """One host. `ask` may be called again and again; the agent keeps what it needs between ticks."""

    host: str

    def ask(self, ask: Ask) -> Sample:
        """Send one question and wait for its sample, at most `ask.deadline_s` and a grace. Raises ChannelError."""

    def close(self) -> None:
        """End the agent and leave nothing behind."""


@dataclass(frozen=True)
class Lost:
    """A host that could not be reached, or no longer."""

    host: str  # as the user named it
    reason: UnseenReason
    detail: str  # what happened, with ssh's own last words; bounded


class Reach(Protocol):
    """Several hosts, each with an agent of its own. One that fails takes nothing from the others."""

    hosts: tuple[str, ...]  # names in the order given, each once; the local machine is its node name

    def exchange(self, asks: Mapping[str, Ask]) -> dict[str, Sample | Lost]:
        """Ask several hosts at once, each with the deadline of its ask; an answer for each host that was asked.

        Never raises for one host. A host that failed stays lost, with what was said first, until `retry`.
        """

    def retry(self) -> None:
        """Connect again to the hosts that were lost; who is still lost says so in the next exchange."""

    def close(self) -> None:
        """End every agent and leave nothing behind. May be called again."""
