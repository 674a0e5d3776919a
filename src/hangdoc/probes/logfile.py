"""Pieces of one log file, read through a descriptor that is known to be a regular file."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, Optional, Tuple

from ..model.sample import LogChunk
from . import logtext

BLOCK = 1 << 20
SETTLED_S = 0.3  # a line that was not gone on with for so long may never be finished: a prompt, a progress bar


def count_lines(fd: int, size: int, budget_s: float) -> Optional[int]:
    """Line ends in the first `size` bytes, None when counting them would take longer than `budget_s`."""
    end = time.monotonic() + budget_s
    lines = at = 0
    buffer = bytearray(BLOCK)
    while at < size:
        got = os.preadv(fd, [buffer], at)
        if got <= 0:
            break
        lines += buffer.count(b"\n", 0, got)
        at += got
        if time.monotonic() > end:
            return None
    return lines


def _read(fd: int, offset: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = os.pread(fd, min(length, 1 << 22), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)


def offset_key(path: str, inode: int) -> str:
    """A key of `Ask.log_offsets` that also says in which file the offset was counted: a rotated log starts anew."""
    return f"{path}#{inode}"


def start_of(path: str, inode: int, size: int, offsets: Dict[str, int]) -> Tuple[Optional[int], str]:
    """(first byte wanted, None on a first look; "" | "rotated" | "truncated"). Pure."""
    exact = offsets.get(offset_key(path, inode))
    if exact is None and path not in offsets:
        of_another = any(key.startswith(path + "#") and key[len(path) + 1 :].isdigit() for key in offsets)
        return None, "rotated" if of_another else ""
    wanted = offsets[path] if exact is None else exact
    return (None, "truncated") if wanted > size else (wanted, "")


def chunks(
    fd: int, start: Optional[int], facts: os.stat_result, head: int, tail: int, mask: Callable[[str], str]
) -> Tuple[LogChunk, ...]:
    """The text after `start` (the whole file when None), masked, with the offset and number of bytes each stands for.

    Where something is left out between two pieces they are cut at line ends, as a secret must not escape its mask in
    two halves; for the same reason a line that is not finished waits until nothing was written for a while.
    Container records are never cut: an unfinished last one is left for the next time.
    """
    found = []
    pieces = logtext.plan(start or 0, facts.st_size, head, tail)
    being_written = time.time() - facts.st_mtime < SETTLED_S
    for number, (offset, length) in enumerate(pieces):
        data = _read(fd, offset, length)
        gap_after = number + 1 < len(pieces)
        wrapped = logtext.wrapping(data[: 1 << 17].decode("utf-8", "replace"))
        if wrapped and not gap_after and b"\n" not in data[: 1 << 17]:
            continue
        front, data = logtext.cut(data, from_line=number > 0, to_line=gap_after or bool(wrapped))
        if not gap_after:
            data = logtext.whole_characters(logtext.finished(data) if being_written else data)
        text = logtext.clip(logtext.unwrap(logtext.decode(data)))
        if data:
            found.append(LogChunk(offset=offset + front, text=mask(text), size=len(data)))
    return tuple(found)
