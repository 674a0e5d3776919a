"""Lines of logs that causes ask for, found when they are asked for.

Most starts get ready, and few patterns are asked for then. One automaton for the patterns of all causes reads long logs fast,
but builds its states as lines come: for the first hundred lines of a start that took a tenth of all that a watch cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..engines.load import pattern as compiled
from ..engines.load import pattern_set

_KEPT = 16  # lines kept for each pattern: the first and the last ones
_UNREAD = 256 << 10  # characters that one pattern is looked for in; of more, all patterns are looked for once


class Spot(msgspec.Struct, frozen=True):
    """A line and the pid of the member that wrote it, where that is known."""

    text: str
    pid: int | None


class Spots:
    """Lines by the patterns that are in them. `patterns` gives those that may be asked for."""

    def __init__(self, patterns: Callable[[], tuple[str, ...]]) -> None:
        """No line so far."""
        self._patterns = patterns
        self._read: dict[str, list[Spot]] = {}  # of lines that were held against all patterns
        self._unread: list[Spot] = []
        self._size = 0  # characters of those
        self._told: dict[str, Sequence[Spot]] = {}  # what was answered since the last line came

    def add(self, spot: Spot) -> None:
        """Take in one line; they come in their order."""
        self._told = {}
        self._unread.append(spot)
        self._size += len(spot.text)
        if self._size > _UNREAD:
            self._read_all()

    def under(self, pattern: str) -> Sequence[Spot]:
        """The first and the last lines that the pattern is in."""
        if pattern not in self._told:
            self._told[pattern] = _ends([*self._read.get(pattern, ()), *self._search(pattern)])
        return self._told[pattern]

    def _search(self, pattern: str) -> list[Spot]:
        # Here a pattern may match across two lines, and then is in none.
        if not compiled(f"(?m:{pattern})").search("\n".join(spot.text for spot in self._unread)):
            return []
        found = compiled(pattern).search
        return [spot for spot in self._unread if found(spot.text)]

    def _read_all(self) -> None:
        texts = self._patterns()
        hits = pattern_set(texts).hits
        for spot in self._unread if texts else ():
            for number in hits(spot.text):
                self._read[texts[number]] = _ends([*self._read.get(texts[number], ()), spot])
        self._unread, self._size = [], 0


def _ends(spots: list[Spot]) -> list[Spot]:
    return spots if len(spots) <= _KEPT else [*spots[: _KEPT // 2], *spots[-(_KEPT // 2) :]]
