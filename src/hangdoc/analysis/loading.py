"""Weight bytes of each rank, counted while it loads them. Pure.

Three counters tell of it, and each misses something: `read_bytes` is what came from storage (nothing when the page cache
has it), `rchar` what read calls gave (nothing of mapped files), `RssFile` how much of mapped files is resident (it falls
when a file is unmapped, so that only growth is added up). The largest of the three since the load began is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.launch import Launch
from ..model.words import Phase, Role
from .logbook import Logbook
from .pace import Pace
from .tracks import Tick, Track

_LOADERS: tuple[Role, ...] = ("worker", "scheduler", "engine-core")
_PHASES: tuple[Phase, ...] = ("model-init", "weight-load")
_EVERY_S = 1.5  # looks that follow closer are one step


@dataclass
class Loading:
    """One rank's load."""

    began: Tick
    last: Tick
    mapped: int = 0  # bytes by which the resident part of mapped files has grown
    pace: Pace = field(default_factory=lambda: Pace("weights read", unit="B"))

    def add(self, tick: Tick, wall: float, total: int) -> None:
        """Take in the counters of a look at wall clock `wall`; `total` is 0 where the checkpoint's size is not known."""
        if tick.rss_file is not None and self.last.rss_file is not None:
            self.mapped += max(0, tick.rss_file - self.last.rss_file)
        self.last = tick
        stored = (tick.read_bytes or 0) - (self.began.read_bytes or 0)
        called = (tick.rchar or 0) - (self.began.rchar or 0)
        done, seconds = max(self.mapped, stored, called), tick.at - self.began.at
        points = self.pace.points
        if done > self.pace.done and (not points or seconds - points[-1][0] >= _EVERY_S):
            self.pace.add(seconds, done, total, wall)
        self.pace.total = total if done < total else 0  # more was read than the checkpoint holds: the end is not known


@dataclass
class Loads:
    """The loads of all ranks."""

    by_pid: dict[int, Loading] = field(default_factory=dict)

    def add(
        self,
        launch: Launch,
        tracks: Mapping[int, Track],
        book: Logbook,
        phases: tuple[Phase, ...],
        wall: float,
        total: int,
    ) -> None:
        """Look at every rank that its own log lines put into its load."""
        for pid, member in launch.members.items():
            track, written = tracks.get(pid), book.by_member.get(pid)
            if track is None or written is None or not track.ticks or member.role not in _LOADERS:
                continue
            tick, phase = track.ticks[-1], written.phase(phases)
            known = self.by_pid.get(pid)
            if phase in _PHASES and known is None:
                self.by_pid[pid] = Loading(tick, tick)
            elif phase in _PHASES and known is not None and tick.at > known.last.at:
                known.add(tick, wall, total)
            elif phase not in _PHASES and known is not None:
                del self.by_pid[pid]  # it has them
