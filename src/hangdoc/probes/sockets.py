"""Sockets of the members: listeners, connections with their clocks (sock_diag, tcp_info), unix peers."""

from __future__ import annotations

from typing import Dict, List, Set

from ..model.sample import Process, Socket, Unseen


def read(root: str, members: Dict[int, Process], inodes: Set[int], unseen: List[Unseen]) -> List[Socket]:
    """Sockets with one of `inodes`, their unix peers, every listener, and connections of inode 0 (not accepted yet).

    Asked once for each network namespace of `members` (setns in a child of this process; `/proc/PID/net/tcp` and
    `unix` where setns or netlink is refused, then without clocks and peers).
    """
    raise NotImplementedError
