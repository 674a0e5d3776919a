"""Sockets of the members: listeners, connections with their clocks (sock_diag, tcp_info), unix peers."""

from __future__ import annotations

import socket
from typing import Dict, Iterable, List, Optional, Set, Tuple

from ..model.sample import Process, Socket, Unseen
from . import fds, netlink, procnet
from .namespaces import net_ns, socket_in
from .reading import reason

LIMIT = 4096  # rows of others that are kept: listeners, far ends, connections that nobody accepted
TIMEOUT_S = 2.0


def read(root: str, members: Dict[int, Process], inodes: Set[int], unseen: List[Unseen]) -> List[Socket]:
    """Sockets with one of `inodes`, their far ends, every TCP listener, and connections that nobody accepted yet.

    Asked once for each network namespace of `members`, through a netlink socket made in that namespace. Where setns
    or netlink is refused, `/proc/PID/net` is read instead, then without clocks and unix peers, and `unseen` says so.
    A listener that a member opened after its descriptors were read is left out: it would seem to be somebody else's.
    """
    rows: List[Socket] = []
    for namespace, pid in _namespaces(root, members):
        rows.extend(_of_namespace(root, pid, namespace, unseen))
    kept, dropped = select(_without_new(root, members, inodes, rows), inodes)
    if dropped:
        unseen.append(Unseen("sockets", "skipped", f"{dropped} sockets of others beyond the first {LIMIT}"))
    return kept


def _without_new(root: str, members: Dict[int, Process], inodes: Set[int], rows: List[Socket]) -> List[Socket]:
    others = {row.inode for row in rows if row.state == "LISTEN" and row.family != "unix"} - inodes
    new = others & set().union(*(fds.sockets_of(root, pid) for pid in members)) if others else others
    return [row for row in rows if row.inode not in new]


def listeners(root: str, pid: int, port: int) -> List[Socket]:
    """TCP sockets that listen on a port in the network namespace of `pid`. Raises OSError where that cannot be read."""
    if not 0 < port < 1 << 16:  # whatever a command line says
        return []
    try:
        with socket_in(root, pid, socket.AF_NETLINK, socket.SOCK_DGRAM, netlink.NETLINK_SOCK_DIAG) as link:
            link.settimeout(TIMEOUT_S)
            rows = netlink.dump_tcp(link, None, listening_on=port)
    except (OSError, AttributeError):  # as in `_of_namespace`
        rows = procnet.read(root, pid, None)
    wanted = f":{port}"
    return [row for row in rows if row.state == "LISTEN" and row.family != "unix" and row.local.endswith(wanted)]


def _namespaces(root: str, members: Dict[int, Process]) -> List[Tuple[Optional[int], int]]:
    """(namespace, a member in it), each namespace once."""
    found: Dict[Optional[int], int] = {}
    for pid, process in sorted(members.items()):
        if process.state not in ("Z", "X"):
            found.setdefault(process.net_ns or net_ns(root, pid), pid)
    return list(found.items())


def _of_namespace(root: str, pid: int, namespace: Optional[int], unseen: List[Unseen]) -> List[Socket]:
    try:
        with socket_in(root, pid, socket.AF_NETLINK, socket.SOCK_DGRAM, netlink.NETLINK_SOCK_DIAG) as link:
            link.settimeout(TIMEOUT_S)
            return netlink.dump_tcp(link, namespace) + netlink.dump_unix(link, namespace)
    except (OSError, AttributeError) as error:  # AttributeError: a libc without setns
        refused = error if isinstance(error, OSError) else OSError(str(error))
    try:
        rows = procnet.read(root, pid, namespace)
    except OSError as error:
        unseen.append(Unseen("sockets", reason(error), f"sockets of the namespace of {pid}: {error}", pid))
        return []
    unseen.append(Unseen("sockets", reason(refused), f"no socket clocks nor unix peers near {pid}: {refused}", pid))
    return rows


def _waits_for_accept(row: Socket) -> bool:
    """A connection without an owner: the handshake is over and nobody has called accept."""
    return row.inode == 0 and row.family != "unix" and row.state in ("ESTABLISHED", "CLOSE_WAIT", "SYN_RECV")


def select(rows: Iterable[Socket], inodes: Set[int], limit: int = LIMIT) -> Tuple[List[Socket], int]:
    """(rows that matter to the owners of `inodes`, how many of others were left out). Pure."""
    rows = list(rows)
    own = [row for row in rows if row.inode in inodes]
    peers = {row.peer for row in own if row.peer}
    # the far end of a connection has the two addresses the other way round, in another or in the same namespace
    far = {(row.remote, row.local) for row in own if row.remote and row.family != "unix"}
    others = []
    for row in rows:
        if row.inode in inodes:
            continue
        if row.family == "unix":
            wanted = row.inode in peers or (row.peer is not None and row.peer in inodes)
        else:
            wanted = row.state == "LISTEN" or _waits_for_accept(row) or (row.local, row.remote) in far
        if wanted:
            others.append(row)
    return own + others[:limit], max(0, len(others) - limit)
