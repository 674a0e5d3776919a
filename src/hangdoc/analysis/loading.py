"""Bytes that a start waits for: weights of each rank, counted while it loads them, and downloads. Pure.

Three counters tell of weights, and each misses something: `read_bytes` is what came from storage (nothing when the page
cache has it), `rchar` what read calls gave (nothing of mapped files), growth of `RssFile` what of mapped files became
resident (nothing of a file that was mapped and unmapped between two looks, as a loader does that has its pages in the cache:
seen with vLLM 0.32). The largest since the load began is taken. What one rank brings into the page cache by a mapped file the
others of its host find there, so it counts for all of them. Only the first two, when they account for nearly all and go on
at the speed of a load, tell how much is still to come; what the page cache holds comes sooner.
"""

from __future__ import annotations

import msgspec

from ..model.launch import Launch
from ..model.places import place_of
from ..model.sample import Sample
from ..model.words import Phase, Role
from .history import History
from .logbook import Logbook
from .pace import Pace
from .tracks import Tick

_LOADERS: tuple[Role, ...] = ("worker", "scheduler", "engine-core")
_PHASES: tuple[Phase, ...] = ("model-init", "weight-load")
_SURE = 0.9  # part of all bytes that counters must account for which miss nothing of what they count
_BEGUN = 0.05  # part of the checkpoint that must have been counted: modules are read at the same time
# Bytes a second: slower than that, something else is being read and the weights come unseen from the cache.
_LEAST = 8 << 20
_LOOKS = 3
_EVERY_S = 1.5  # looks that follow closer are one step
_DOWNLOAD_S = 60.0  # an unfinished file that was not written to for so long was left so
# Load formats in which each rank goes through all files.
_WHOLE = ("auto", "safetensors", "pt", "hf", "npcache", "mistral")


class Loading(msgspec.Struct):
    """One rank's load."""

    began: Tick
    last: Tick
    whole: bool = True  # its beginning was seen; else nobody knows what was read before
    mapped: int = 0  # bytes by which the resident part of mapped files has grown
    pace: Pace = msgspec.field(default_factory=lambda: Pace("weights read", unit="B"))

    @property
    def stored(self) -> int:
        """Bytes that came from storage for it."""
        return (self.last.read_bytes or 0) - (self.began.read_bytes or 0)

    @property
    def called(self) -> int:
        """Bytes that its read calls gave."""
        return (self.last.rchar or 0) - (self.began.rchar or 0)

    @property
    def shared(self) -> int:
        """Bytes that it brought into the page cache by mapped files: there every other rank finds them."""
        return self.stored if self.called < self.stored / 2 else 0

    def add(self, tick: Tick, wall: float, total: int, others: int = 0) -> None:
        """Take in the counters of a look at wall clock `wall`; `total` is 0 where the checkpoint's size is not known.
        `others`: what the other ranks of its host brought into the page cache."""
        if tick.rss_file is not None and self.last.rss_file is not None:
            self.mapped += max(0, tick.rss_file - self.last.rss_file)
        self.last = tick
        told = max(self.stored + others, self.called)
        done, seconds = max(self.mapped, told), tick.at - self.began.at
        points = self.pace.points
        if done > self.pace.done and (not points or seconds - points[-1][0] >= _EVERY_S):
            self.pace.add(seconds, done, total, wall)
        seen = told >= max(_SURE * done, _BEGUN * total)
        steady = len(points) > _LOOKS and (self.pace.rate() or 0) >= _LEAST
        self.pace.total = total if self.whole and done < total and seen and steady else 0


class Loads(msgspec.Struct):
    """What comes in: the weights of all ranks, and the download of the checkpoint."""

    by_pid: dict[int, Loading] = {}
    download: Pace = msgspec.field(default_factory=lambda: Pace("download", unit="B"))

    def add(self, launch: Launch, history: History, book: Logbook, phases: tuple[Phase, ...], sample: Sample) -> None:
        """Look at every rank that its own log lines put into its load, and at files that are being downloaded."""
        if sample.storage is not None:
            self._fetch(history, sample)
        for pid, member in launch.members.items():
            track, written = history.tracks.get(pid), book.by_member.get(pid)
            if track is None or written is None or not track.ticks or member.role not in _LOADERS:
                continue
            tick, phase = track.ticks[-1], written.phase(phases)
            known = self.by_pid.get(pid)
            if phase in _PHASES and known is None:
                first = history.first.mono if history.first else 0.0
                self.by_pid[pid] = Loading(tick, tick, any(written.marked.get(one, 0.0) > first for one in _PHASES))
            elif phase in _PHASES and known is not None and tick.at > known.last.at:
                known.add(tick, sample.at, weights_of(launch, history), self._shared_beside(pid))
            elif phase not in _PHASES and known is not None:
                del self.by_pid[pid]  # it has them

    def _shared_beside(self, pid: int) -> int:
        place = place_of(pid)
        return sum(one.shared for other, one in self.by_pid.items() if other != pid and place_of(other) == place)

    def _fetch(self, history: History, sample: Sample) -> None:
        partials = history.storage.partials or ()
        fresh = [one for one in partials if sample.at - one.changed < _DOWNLOAD_S]
        if not fresh:
            self.download = Pace("download", unit="B")
            return
        whole = max(history.storage.checkpoints or (), key=lambda one: one.expected_bytes or 0, default=None)
        # A file that is filled at several places has its full length from the beginning.
        done = sum(min(one.bytes, one.allocated) for one in partials) + (whole.bytes if whole else 0)
        total = (whole.expected_bytes or 0) if whole else 0
        self.download.add(sample.mono, done, total if total > done else 0, max(one.changed for one in fresh))


def checkpoint_bytes(history: History) -> int | None:
    """Size of the largest checkpoint that the launch names, by its index, else by its files; None when not known."""
    return max((one.expected_bytes or one.bytes for one in history.storage.checkpoints or ()), default=0) or None


def weights_of(launch: Launch, history: History) -> int:
    """Bytes that each rank has to go through: the largest checkpoint that is named. 0 where that is not known, or where ranks
    divide the files among themselves."""
    if launch.args.get("load-format", "auto") not in _WHOLE or "pipeline-parallel-size" in launch.args:
        return 0
    return checkpoint_bytes(history) or 0
