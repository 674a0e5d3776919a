"""When lines were written, from the times that some of them carry. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_QUARTER_S = 900  # time zones are whole quarters of an hour


def zone(naive: Sequence[float | None], mtime: float | None) -> float | None:
    """Seconds to add to the times that lines carry: the writer may be in another time zone. None without both clocks.

    Quarters of an hour are zones, the rest is age of the last line.
    """
    last = next((at for at in reversed(naive) if at is not None), None)
    if last is None or mtime is None:
        return None
    return float(round((mtime - last) / _QUARTER_S) * _QUARTER_S)


def filled(times: Sequence[float | None], end: float | None) -> list[float | None]:
    """A time for each line: its own, else that of the next line that has one, else `end` (when the file last grew).

    That is never before the line was written, so what is measured from it is never too long.
    """
    found: list[float | None] = []
    at = end
    for one in reversed(times):
        at = one if one is not None else at
        found.append(at)
    found.reverse()
    return found
