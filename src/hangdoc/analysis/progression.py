"""How a start went through its phases, from the marks in its log. Pure.

The same is asked of a start that is recorded and of one that is compared, so that like is held against like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..engines.profile import PhaseSpec
from ..model.words import Phase
from .logbook import Written


class Span(msgspec.Struct, frozen=True):
    """Seconds since the root process started; `end` is None while it lasts."""

    phase: Phase
    start: float
    end: float | None = None

    def seconds(self, now: float) -> float:
        """How long it took, or lasts at `now`."""
        return max(0.0, (self.end if self.end is not None else now) - self.start)


def spans(
    order: Sequence[PhaseSpec], moments: Iterable[tuple[float, Phase]], began: float, ready: float | None
) -> tuple[Span, ...]:
    """The phases that marks tell of, first to last, each entered once: a mark of an earlier phase changes nothing.

    `moments` are (seconds, phase); before the first one, from `began` on, the first phase holds. `ready` ends the last.
    """
    ids = [spec.id for spec in order]
    if not ids:
        return ()
    found = [Span(ids[0], began)]
    for at, phase in sorted((one for one in moments if one[1] in ids), key=lambda one: (one[0], ids.index(one[1]))):
        last = found[-1]
        further = ids.index(phase) > ids.index(last.phase)
        if further and (ready is None or at <= ready):
            entered = max(at, last.start)
            found[-1] = Span(last.phase, last.start, entered)
            found.append(Span(phase, entered))
    if ready is not None and found[-1].phase != "ready":
        last = found[-1]
        found[-1] = Span(last.phase, last.start, max(last.start, ready))
    return tuple(one for one in found if one.phase != "ready")


def moments(written: Written, started: float) -> list[tuple[float, Phase]]:
    """The timed marks of one writer, in seconds since `started` (wall clock)."""
    return [(max(0.0, at - started), mark.phase) for mark, at in written.marks if at is not None]


def ready_at(writers: Iterable[Written], started: float) -> float | None:
    """Seconds until the line that says ready, None before it came."""
    times = [at - started for one in writers for mark, at in one.marks if mark.phase == "ready" and at is not None]
    return max(0.0, min(times)) if times else None


def front(
    order: Sequence[PhaseSpec], writers: Mapping[int, Written], others: Written, started: float, ready: float | None
) -> tuple[Span, ...]:
    """The launch's phases: each from the moment that its foremost member enters it."""
    everyone = [one for written in (*writers.values(), others) for one in moments(written, started)]
    return spans(order, everyone, 0.0, ready)
