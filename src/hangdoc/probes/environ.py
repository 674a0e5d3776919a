"""Environment by allow-list with secrets masked, and resource limits."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ..model.sample import Unseen


def read(root: str, pid: int, unseen: List[Unseen]) -> Optional[Dict[str, str]]:
    """Allow-listed variables. None, with reason `overwritten`, when setproctitle wrote over the area."""
    raise NotImplementedError


def limits(root: str, pid: int, unseen: List[Unseen]) -> Optional[Dict[str, Tuple[str, str]]]:
    """Resource limits: name -> (soft, hard)."""
    raise NotImplementedError
