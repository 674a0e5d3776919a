"""Tracebacks in a log that is read piece by piece: the first one whole, the later ones counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..engines import lines
from ..engines.profile import Profile

_LINES = 60  # of the first traceback that are kept
_OPEN = 400  # lines that may pass before a traceback has its end


@dataclass
class Tracebacks:
    """What was read so far."""

    first: lines.Traceback | None = None
    text: list[str] = field(default_factory=list)  # lines of the first
    seen: float | None = None  # monotonic instant of the look that read the first
    count: int = 0
    _open: list[str] = field(default_factory=list)  # from the beginning of one that has no end yet

    def read(self, fresh: Sequence[str], profile: Profile, now: float) -> None:
        """Read further lines."""
        if not self._open and not any("Traceback" in line for line in fresh):
            return
        every = [*self._open, *fresh]
        found = lines.tracebacks(every, profile)
        self._open = []
        if found and not found[-1].exception and len(every) - found[-1].start < _OPEN:
            self._open = every[found[-1].start :]
            found = found[:-1]
            if self.first is None and not found:
                self.seen = self.seen if self.seen is not None else now
        if found and self.first is None:
            one = self.first = found[0]
            self.text = every[one.start : one.end][-_LINES:]
            self.seen = self.seen if self.seen is not None else now
        self.count += len(found)
