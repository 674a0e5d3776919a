"""Logs behind fd 1 and 2 of the members: found, followed through tee and container runtimes, read from an offset."""

from __future__ import annotations

from typing import Dict, List, Tuple

from ..model.sample import Log, Process, Unseen


def read(
    root: str,
    members: Dict[int, Process],
    extra: Tuple[str, ...],
    offsets: Dict[str, int],
    unseen: List[Unseen],
    first_head: int = 1 << 20,
    first_tail: int = 3 << 20,
) -> List[Log]:
    """Logs of the members (their `fds` 1 and 2 must be filled) and of `extra`, with the text after `offsets`.

    A first look takes the whole file when it is no longer than head plus tail, else both ends. A file that shrank or
    has another inode is read from its start, and its note says "truncated" or "rotated".
    """
    raise NotImplementedError
