"""How fast something goes of which so much is done and so much is to do, and how long it will still take. Pure.

Fed by progress bars in the log and by counted bytes. A tqdm bar prints its own elapsed time, so a bar that was read late
tells as much as one that was watched.
"""

from __future__ import annotations

import math
import re
from collections import deque
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from ..engines.lines import Bar
from . import floors, quantiles

_ELAPSED = re.compile(r"(\d{1,7})/(\d{1,7}) \[(?:(\d{1,3}):)?(\d{1,2}):(\d\d)<")
_LABEL = re.compile(r"^[^\d:%|(]{3,60}")
_POINTS = 64
_STEPS = 8  # the last steps tell the pace of now
_SPREAD = 20.0  # steps that differ by so much tell of no pace
_PATIENCE = 4.0  # a step that takes so many times as long as the longest one before says nothing about the rest
_BURSTY, _BURSTY_S = 5.0, 3.0  # times by which the longest step exceeds the shortest one, and how long it is, of bursts
_OVER = 0.2  # part of the time between two bursts after whose beginning one is over
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class Left(NamedTuple):
    """Seconds left: likely, at least, at most."""

    likely: float
    low: float
    high: float


class Pace(msgspec.Struct):
    """One count over time. `total` is 0 where the end is not known; `unit` is "B" for bytes."""

    label: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    at: float | None = None  # wall clock at which it last went on
    points: deque[tuple[float, int]] = msgspec.field(default_factory=lambda: deque(maxlen=_POINTS))  # seconds, done
    at_once: bool = False  # several steps are under way at once, and come in bursts
    sizes: tuple[int, ...] = ()  # of each step, where they are known: of shards the last one is often much smaller

    def add(self, seconds: float, done: int, total: int, at: float | None) -> None:
        """Take in how much is done after so many seconds, known at wall clock `at`."""
        if self.points and (done < self.points[-1][1] or seconds < self.points[-1][0]):
            self.points.clear()  # something new of the same form
        if not self.points or done > self.points[-1][1]:
            self.points.append((seconds, done))
            self.at = at
        self.done, self.total = done, total

    def rate(self) -> float | None:
        """Steps a second over the last ones; None before there are two different points."""
        if len(self.points) < 2:
            return None
        (then, before), (now, done) = self.points[max(0, len(self.points) - 1 - _STEPS)], self.points[-1]
        return (done - before) / (now - then) if now > then else None

    def left(self, now: float) -> Left | None:
        """Seconds left at wall clock `now`. None where that cannot be known.

        It cannot before two steps were seen, without a total, where steps differ too much, and no more once a step lasts far
        longer than any before.
        """
        if len(self.points) < 2 or self.at is None or self.done >= self.total:
            return None
        since = max(0.0, now - self.at)
        gaps = [b[0] - a[0] for a, b in pairwise(self.points)]
        if self.at_once and max(gaps) > max(_BURSTY * min(gaps), _BURSTY_S):
            return self._in_bursts(since)
        return self._steadily(since)

    def _steadily(self, since: float) -> Left | None:
        points, rest = self._by_size()
        pairs = list(pairwise(points))
        steps = sorted((b[0] - a[0]) / (b[1] - a[1]) for a, b in pairs)
        longest = max(b[0] - a[0] for a, b in pairs)
        spent = points[-1][0] - points[0][0]
        if spent <= 0 or since > _PATIENCE * max(longest, 1.0):
            return None
        low, high = (rest * quantiles.quantile(steps, share) for share in (0.1, 0.9))
        if high > _SPREAD * max(low, 1.0):
            return None
        likely = rest * spent / (points[-1][1] - points[0][1])
        return Left(*(max(0.0, one - since) for one in (likely, min(low, likely), max(high, likely))))

    def _in_bursts(self, since: float) -> Left | None:
        """By what came in each burst so far, once the last one is over; every burst takes as long as those before."""
        pairs = list(pairwise(self.points))
        longest = max(b[0] - a[0] for a, b in pairs)
        begun = [b for a, b in pairs if b[0] - a[0] > longest / 2]
        since += self.points[-1][0] - begun[-1][0]  # from the beginning of the last burst
        if not _OVER * longest < since <= _PATIENCE * max(longest, 1.0):
            return None
        took = (begun[-1][0] - self.points[0][0]) / len(begun)
        bursts = (self.total - self.done) / ((self.done - self.points[0][1]) / len(begun))
        likely, low, high = math.ceil(bursts) * took, bursts * took, math.ceil(bursts) * longest
        return Left(*(max(0.0, one - since) for one in (likely, min(low, likely), max(high, likely))))

    def _by_size(self) -> tuple[list[tuple[float, int]], int]:
        """The last points and what is left, in sizes of steps where those are known."""
        points = list(self.points)[-1 - _STEPS :]
        if len(self.sizes) != self.total or 0 in self.sizes:
            return points, self.total - self.done
        sums = [0, *accumulate(self.sizes)]
        return [(at, sums[done]) for at, done in points], sums[-1] - sums[self.done]

    def moved(self, now: float) -> bool:
        """Whether it went on within the window in which stillness is judged."""
        return self.at is not None and now - self.at <= floors.STILL_S and len(self.points) > 0

    def words(self, now: float) -> str:
        """How much of how much and the time left, for people."""
        done = _amount(self.done, self.unit)
        if self.total <= 0:
            return done
        share = f"{done} of {_amount(self.total, self.unit)}"
        left = self.left(now)
        return f"{share}, {left_words(left)}" if left is not None else share


def left_words(left: Left) -> str:
    """The time left with its spread."""
    likely, low, high = (round(one) for one in left)
    spread = f" ({low} to {high})" if high > low else ""
    return f"about {likely} s left{spread}"


def read_bar(pace: Pace, text: str, bar: Bar, at: float | None) -> None:
    """Take one line of a progress bar into its pace: by the elapsed time that it prints, else by that of the line."""
    hits = _ELAPSED.findall(text)
    if hits:
        hours, minutes, seconds = (int(one or 0) for one in hits[-1][2:])
        elapsed: float | None = float(hours * 3600 + minutes * 60 + seconds)
    else:
        elapsed = at
    if elapsed is None:
        return
    pace.add(elapsed, bar.done, bar.total, at)
    found = _LABEL.match(text.strip())
    pace.label = found.group().strip() if found else ""


def _amount(count: int, unit: str) -> str:
    if unit != "B":
        return str(count)
    size, name = next(((size, name) for size, name in _UNITS if count >= size), (1, "B"))
    return f"{count / size:.1f} {name}" if size > 1 else f"{count} B"
