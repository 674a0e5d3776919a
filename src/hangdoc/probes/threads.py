"""Threads: what each one is doing, read without stopping it."""

from __future__ import annotations

from typing import Dict, List, Optional

from ..model.sample import Thread, Unseen


def read(root: str, pid: int, previous: Optional[Dict[int, Thread]], unseen: List[Unseen]) -> Dict[int, Thread]:
    """Threads of a process by tid. A thread whose schedstat equals that of `previous` is taken over unread."""
    raise NotImplementedError
