"""Lines of logs that causes ask for, found when they are asked for.

Most starts get ready and are asked for none. One automaton for the patterns of all causes builds its states as lines come,
which for the first hundred lines of a start took a tenth of all that a watch cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..engines.load import pattern_set

_KEPT = 16  # lines kept for each pattern
_UNREAD = 1 << 20  # characters that may wait to be read


class Spot(msgspec.Struct, frozen=True):
    """A line and the pid of the member that wrote it, where that is known."""

    text: str
    pid: int | None


class Spots:
    """Lines by the patterns that are in them. `patterns` gives those that may be asked for."""

    def __init__(self, patterns: Callable[[], tuple[str, ...]]) -> None:
        """No line so far."""
        self._patterns = patterns
        self._found: dict[str, list[Spot]] = {}
        self._unread: list[Spot] = []
        self._size = 0  # characters of those

    def add(self, spot: Spot) -> None:
        """Take in one line; they come in their order."""
        self._unread.append(spot)
        self._size += len(spot.text)
        if self._size > _UNREAD:
            self._read()

    def under(self, pattern: str) -> Sequence[Spot]:
        """The first and the last lines that the pattern is in."""
        if self._unread:
            self._read()
        return self._found.get(pattern, ())

    def _read(self) -> None:
        unread, self._unread, self._size = self._unread, [], 0
        texts = self._patterns()
        hits = pattern_set(texts).hits
        for spot in unread if texts else ():
            for number in hits(spot.text):
                kept = self._found.setdefault(texts[number], [])
                if len(kept) >= _KEPT:
                    del kept[_KEPT // 2]
                kept.append(spot)
