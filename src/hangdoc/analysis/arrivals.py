"""What comes in from outside a member: compilers that are started, files that are downloaded or compiled. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ..model.sample import Place, Sample, Storage
from ..model.storage import COMPILED
from . import floors
from .tracks import Track

Source = Literal["download", "compiler"]  # of files that come in


class Compiled(msgspec.Struct):
    """Compilers that were seen, each once. Looks are a second apart, so that there were more."""

    seen: int = 0
    # Monotonic instants at which they were new.
    at: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))

    def add(self, at: float) -> None:
        """One more."""
        self.seen += 1
        self.at.append(at)

    def rate(self) -> float | None:
        """New ones a second; None before there are some."""
        spent = self.at[-1] - self.at[0] if len(self.at) > 2 else 0.0
        return (len(self.at) - 1) / spent if spent > 0 else None


def compiled_places(storage: Storage) -> list[Place]:
    """Caches of compiled things that hold files."""
    return [one for one in storage.places or () if one.role in COMPILED and one.files and one.newest]


def mark(tracks: Mapping[int, Track], storage: Storage, sample: Sample) -> None:
    """Let what was written just now move its members: a file that is downloaded those that have it open, else everybody; a
    new file in a cache of compiled things those that use the cache and compute, as another launch may use it, too."""
    for partial in storage.partials or ():
        _written("download", partial.pids or tuple(tracks), tracks, sample, partial.changed)
    since = sample.mono - floors.STILL_S
    for place in compiled_places(storage):
        pids = place.pids or tuple(tracks)
        busy = [pid for pid in pids if pid in tracks and (tracks[pid].cpu_rate(since) or 0) > floors.CPU]
        _written("cache files", busy, tracks, sample, place.newest or 0.0)


def _written(channel: str, pids: Iterable[int], tracks: Mapping[int, Track], sample: Sample, changed: float) -> None:
    ago = max(0.0, sample.at - changed)
    for pid in pids:
        if pid in tracks and ago < floors.STILL_S:
            moved = tracks[pid].moved
            moved[channel] = max(moved.get(channel, 0.0), sample.mono - ago)
