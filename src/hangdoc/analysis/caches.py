"""Whether a start finds its caches filled: the compilers', the page cache, the model on disk. Pure.

Told by what a start does, not by what lies on the disk: a cache may be there and not be used.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import msgspec

from ..model.launch import Launch
from .history import History
from .logbook import Logbook

COLD_READ = 256 << 20  # bytes from storage by all members: imports of a warm start read some MB, of a cold one 1 GB
WARM_READ = 64 << 20
COMPILERS = 12  # a warm start, too, asks a compiler for its version and links something small


class Found(msgspec.Struct, frozen=True):
    """What was seen of a start so far; None where it could not be."""

    compiled: int = 0  # compilers seen, at least
    said: frozenset[str] = frozenset()  # "warm", "cold": what the log says of a compiler's cache
    read_bytes: int | None = None  # from storage, by all members
    downloaded: bool = False
    early: bool = False  # its imports may not be over: what was not read yet says nothing

    @property
    def state(self) -> str:
        """cold | warm | unknown. Cold as soon as anything is; warm only when nothing speaks against it."""
        if self.downloaded or "cold" in self.said or self.compiled >= COMPILERS or (self.read_bytes or 0) >= COLD_READ:
            return "cold"
        return "warm" if not self.early and self.read_bytes is not None and self.read_bytes < WARM_READ else "unknown"

    @property
    def words(self) -> str:
        """What speaks for a cold start."""
        parts = []
        if self.downloaded:
            parts.append("the model is being downloaded")
        if "cold" in self.said or self.compiled >= COMPILERS:
            parts.append(
                f"{self.compiled or 'some'} compilers seen" if self.compiled else "its log says that it compiles"
            )
        if (self.read_bytes or 0) >= COLD_READ:
            parts.append(f"{(self.read_bytes or 0) >> 20:,} MiB read from storage")
        return ", ".join(parts)


def found(history: History, book: Logbook | None, launch: Launch) -> Found:
    """What was seen so far of the caches of a launch."""
    counts = [
        track.process.io.read_bytes
        for track in history.tracks.values()
        if track.process.io is not None and track.member.needed
    ]
    said: AbstractSet[str] = book.caches if book is not None else frozenset()
    fetched = any(one.member.role == "downloader" for one in history.tracks.values()) or any(
        "download" in one.moved for one in history.tracks.values()
    )
    whole = bool(launch.members) and len(counts) >= len(launch.needed)
    writers = (*book.by_member.values(), book.others) if book is not None else ()
    early = all(mark.phase in ("import", "config") for one in writers for mark, _ in one.marks)
    return Found(history.compiled.seen, frozenset(said), sum(counts) if whole else None, fetched, early)
