"""After its weights a rank waits for the others."""

from __future__ import annotations

from torch.distributed import distributed_c10d as dist


def dist_barrier_after_load(group: dist.ProcessGroup) -> None:
    """Return when all ranks have loaded."""
    dist.monitored_barrier(group)
