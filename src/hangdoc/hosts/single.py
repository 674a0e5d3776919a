"""The channel that a reach of one host is."""

from __future__ import annotations

from ..model.ask import Ask
from ..model.sample import Sample
from .channel import ChannelError, Lost, Reach


class Single:
    """One host of a reach as a `Channel`."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.host = reach.hosts[0]

    def ask(self, ask: Ask) -> Sample:
        """Send one question and wait for its sample. Raises ChannelError."""
        answer = self.reach.exchange({self.host: ask})[self.host]
        if isinstance(answer, Lost):
            raise ChannelError(f"{answer.host}: {answer.detail}")
        return answer

    def close(self) -> None:
        """End the agent."""
        self.reach.close()
