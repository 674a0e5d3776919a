"""Facts about the host: memory, cgroups, mounts that do not answer, shared memory, pressure, kernel log."""

from __future__ import annotations

from typing import Dict, List

from ..model.sample import HostFacts, Process, Unseen


def read(root: str, members: Dict[int, Process], unseen: List[Unseen]) -> HostFacts:
    """Facts about the host, with the cgroups that the members are in."""
    raise NotImplementedError
