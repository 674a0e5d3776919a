"""Processes: who is there, whose child, since when, in which state, under which title."""

from __future__ import annotations

from typing import Dict, List, Optional

from ..model.sample import Process, Unseen


def list_all(root: str = "/proc") -> Dict[int, Process]:
    """Every process by pid from `stat` and `status` alone, which never block (knowledge of A1, A2 in docs/safety.md)."""
    raise NotImplementedError


def fill(root: str, process: Process, unseen: List[Unseen]) -> Optional[Process]:
    """The process with everything of the probe `processes`; may block. None when it is gone or another one has its pid."""
    raise NotImplementedError
