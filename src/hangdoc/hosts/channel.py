"""A channel carries questions to the agent on one host and samples back."""

from __future__ import annotations

from typing import Protocol

from ..model.ask import Ask
from ..model.sample import Sample


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
