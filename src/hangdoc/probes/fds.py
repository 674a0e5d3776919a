"""Open file descriptors by readlink, lstat and fdinfo; never by stat or open (docs/safety.md)."""

from __future__ import annotations

from typing import Dict, List

from ..model.sample import Fd, Unseen


def read(root: str, pid: int, unseen: List[Unseen], limit: int = 4096) -> Dict[int, Fd]:
    """Descriptors of a process, at most `limit` of them (more is said in `unseen`)."""
    raise NotImplementedError
