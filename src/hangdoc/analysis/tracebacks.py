"""Tracebacks in a log that is read piece by piece: the first one whole, the later ones counted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..engines import lines
from ..engines.profile import Profile

_LINES = 60  # of the first traceback that are kept
_OPEN = 400  # lines that may pass before a traceback has its end


class Tracebacks(msgspec.Struct):
    """What was read so far."""

    first: lines.Traceback | None = None
    text: list[str] = []  # lines of the first
    count: int = 0
    _unfinished: bool = False  # the first has no end yet
    _open: list[str] = []  # from the beginning of one that has no end yet

    def read(self, fresh: Sequence[str], profile: Profile) -> None:
        """Read further lines."""
        if not self._open and not any("Traceback" in line for line in fresh):
            return
        every = [*self._open, *fresh]
        found = lines.tracebacks(every, profile)
        self._open = []
        unfinished = bool(found) and not found[-1].exception and len(every) - found[-1].start < _OPEN
        if found and (self.first is None or self._unfinished):
            one = self.first = found[0]
            self.text = every[one.start : one.end][-_LINES:]
            self._unfinished = unfinished and len(found) == 1  # its end may come with the next lines
        if unfinished:
            self._open = every[found[-1].start :]
        self.count += len(found) - unfinished
