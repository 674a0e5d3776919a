"""How long a member has given no sign of life that anybody could have seen: no movement, no news in the log. Pure."""

from __future__ import annotations

from . import compare
from .view import Picture, View


def silence(view: View, one: Picture, *, ended: bool) -> float:
    """Seconds since the last sign of a member, of what it runs, or of a further phase of the launch.

    The log tells of the time before the look, too. Where nothing does, it is the time of the look; once that has `ended`, what
    it saw has to do.
    """
    history = view.history
    track = history.tracks[one.member.pid]
    moved = [at for each in (track, *history.helpers_below(one.member.pid)) for at in each.moved.values()]
    said = view.logbook.news_at(one.member)
    known = [history.now - at for at in moved]
    if said is not None and history.last is not None:
        known.append(history.last.at - said)
    known.append(compare.since_phase(view))
    shortest = max(0.0, min(known))
    return history.window if shortest == float("inf") and not ended else shortest
