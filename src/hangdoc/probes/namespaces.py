"""Sockets that belong to the network namespace of another process."""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Optional, Set

from .reading import text_or_none

_TABLE = 1 << 20  # bytes of a table of sockets that are looked at
CLONE_NEWNET = 0x40000000  # linux/sched.h


def net_ns(root: str, pid: Optional[int] = None) -> Optional[int]:
    """Inode number of a process's network namespace, our own without `pid`. None when it may not be read."""
    link = "/proc/self/ns/net" if pid is None else f"{root}/{pid}/ns/net"
    try:
        return int(os.readlink(link).rpartition("[")[2].rstrip("]"))
    except (OSError, ValueError):
        return None


def shares_network(root: str, pid: int) -> bool:
    """Whether a process is in our network namespace.

    Where its number may not be read, as inside a container that forbids tracing, the tables tell: the inode of a socket
    is unique on a machine, so that one which stands in both tables means that they are the same.
    """
    number = net_ns(root, pid)
    if number is not None:
        return number == net_ns(root)
    return bool(_sockets(f"{root}/{pid}") & _sockets(f"{root}/self"))


def _sockets(folder: str) -> Set[str]:
    """Inodes of the unix and TCP sockets in the tables of a process."""
    found = set()
    for name, column in (("unix", 6), ("tcp", 9), ("tcp6", 9)):
        for line in (text_or_none(f"{folder}/net/{name}", _TABLE) or "").splitlines()[1:]:
            words = line.split()
            if len(words) > column and words[column] != "0":
                found.add(words[column])
    return found


def _setns(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def socket_in(root: str, pid: Optional[int], family: int, kind: int, protocol: int = 0) -> socket.socket:
    """A new socket in the network namespace of `pid`, our own when it is None or the same. Raises OSError.

    A socket belongs for ever to the namespace that its maker was in, so this thread is back in its own at once.
    """
    if pid is None or shares_network(root, pid):
        return socket.socket(family, kind, protocol)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # The way back is tried first: it is refused in a user namespace that its own network does not belong to.
        _setns(home)
        there = os.open(f"{root}/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            return socket.socket(family, kind, protocol)
        finally:
            _setns(home)
    finally:
        os.close(home)
