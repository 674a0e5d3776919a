"""Quantiles of few figures, and when a start is overdue by them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FEW = 5  # below five runs the longest of them says little, and both bounds are wider
MARGIN_S, FEW_MARGIN_S = 30.0, 60.0
FACTOR, FEW_FACTOR = 1.5, 2.0


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are there, ascending."""
    return sorted(one for one in values if one is not None)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of ascending values, linear between two of them (type 7 of Hyndman and Fan)."""
    place = (len(values) - 1) * share
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def overdue_after(values: Sequence[float], scale: float = 1.0, *, alike: bool = True) -> float:
    """Seconds after which something that took so long in good starts is overdue: max(p95 + 30 s, 1.5 x longest), below
    five runs, or where they were not `alike` in all that is known, max(p95 + 60 s, 2 x longest). `scale`: how much longer it
    may take here for a stated reason; it does not widen the margin."""
    margin, factor = (MARGIN_S, FACTOR) if alike and len(values) >= FEW else (FEW_MARGIN_S, FEW_FACTOR)
    return max(scale * quantile(values, 0.95) + margin, factor * scale * values[-1])
