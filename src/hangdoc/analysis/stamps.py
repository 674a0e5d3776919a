"""When lines were written, from the times that some of them carry. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_SLACK_S = 60.0  # clocks of a container and its host, seconds cut off
_QUARTER_S = 900  # time zones are whole quarters of an hour


def zone(naive: Sequence[float | None], mtime: float | None, started: float | None = None) -> float | None:
    """Seconds to add to the times that lines carry: the writer may be in another time zone. None without both clocks.

    Where all of them lie between the start of the process and the last growth of the file there is nothing to add: a
    load that prints lines without a time for long is no zone. Else quarters of an hour are zones, the rest is age of
    the last line.
    """
    known = [at for at in naive if at is not None]
    if not known or mtime is None:
        return None
    last = known[-1]
    if started is not None and started - _SLACK_S <= known[0] and last <= mtime + _SLACK_S:
        return 0.0
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
