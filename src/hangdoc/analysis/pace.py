"""How fast a progress bar goes, and how long it will still take. Pure.

A tqdm bar prints its own elapsed time, so a bar that was read late tells as much as one that was watched.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from . import floors, quantiles

_ELAPSED = re.compile(r"(\d{1,7})/(\d{1,7}) \[(?:(\d{1,3}):)?(\d{1,2}):(\d\d)<")
_LABEL = re.compile(r"^[^\d:%|]{3,60}")
_POINTS = 64
_STEPS = 8  # the last steps tell the pace of now
_PATIENCE = 4.0  # a step that takes so many times as long as the longest one before says nothing about the rest


@dataclass
class Pace:
    """One bar over time."""

    label: str = ""
    done: int = 0
    total: int = 0
    at: float | None = None  # wall clock of its last line
    points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_POINTS))  # elapsed seconds, done

    def add(self, text: str, at: float | None) -> None:
        """Take in one line of the bar, written at `at` at the latest."""
        hits = _ELAPSED.findall(text)
        if not hits:
            return
        done, total, hours, minutes, seconds = (int(one or 0) for one in hits[-1])
        elapsed = float(hours * 3600 + minutes * 60 + seconds)
        if self.points and (done < self.points[-1][1] or elapsed < self.points[-1][0]):
            self.points.clear()  # a new bar of the same form
        if not self.points or done > self.points[-1][1]:
            self.points.append((elapsed, done))
        found = _LABEL.match(text.strip())
        self.label = found.group().strip() if found else ""
        self.done, self.total, self.at = done, total, at

    def rate(self) -> float | None:
        """Steps a second over the last ones; None before there are two different points."""
        if len(self.points) < 2:
            return None
        (then, before), (now, done) = self.points[max(0, len(self.points) - 1 - _STEPS)], self.points[-1]
        return (done - before) / (now - then) if now > then else None

    def left(self, now: float) -> tuple[float, float, float] | None:
        """Seconds left at wall clock `now`: likely, at least, at most. None where that cannot be known.

        It cannot before two steps were seen, and no more once a step lasts far longer than any before.
        """
        rate = self.rate()
        if rate is None or rate <= 0 or self.at is None or self.done >= self.total:
            return None
        pairs = list(self.points)[-1 - _STEPS :]
        steps = sorted((b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(pairs))
        since = max(0.0, now - self.at)
        if since > _PATIENCE * max(steps[-1], 1.0):
            return None
        rest = self.total - self.done
        low, high = rest * quantiles.quantile(steps, 0.1), rest * quantiles.quantile(steps, 0.9)
        return max(0.0, rest / rate - since), max(0.0, low - since), max(0.0, high - since)

    def moved(self, now: float) -> bool:
        """Whether it went on within the window in which stillness is judged."""
        return self.at is not None and now - self.at <= floors.STILL_S and len(self.points) > 0

    def words(self, now: float) -> str:
        """n of m and the time left, for people."""
        left = self.left(now)
        if left is None:
            return f"{self.done} of {self.total}"
        likely, low, high = (round(one) for one in left)
        spread = f" ({low} to {high})" if high > low else ""
        return f"{self.done} of {self.total}, about {likely} s left{spread}"
