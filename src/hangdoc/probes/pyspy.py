"""Python stacks by `py-spy dump --json --nonblocking`, which stops no thread."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ..model.sample import Process, Stack, Unseen


def find(root: str, process: Process, ours: Optional[str]) -> Tuple[Optional[str], str]:
    """(path, version) of a py-spy >= 0.4.0: the target's own, else `ours`, else that of PATH; (None, reason) without."""
    raise NotImplementedError


def dump(root: str, process: Process, pyspy: str, deadline_s: float, unseen: List[Unseen]) -> Tuple[Optional[List[Stack]], str]:
    """Stacks of one process, innermost frame first, and its Python version. Tids are those of the host."""
    raise NotImplementedError
