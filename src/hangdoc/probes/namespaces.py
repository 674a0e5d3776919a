"""Sockets that belong to the network namespace of another process."""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Optional

CLONE_NEWNET = 0x40000000  # linux/sched.h


def net_ns(root: str, pid: Optional[int] = None) -> Optional[int]:
    """Inode number of a process's network namespace, our own without `pid`. None when it may not be read."""
    link = "/proc/self/ns/net" if pid is None else f"{root}/{pid}/ns/net"
    try:
        return int(os.readlink(link).rpartition("[")[2].rstrip("]"))
    except (OSError, ValueError):
        return None


def _setns(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def socket_in(root: str, pid: Optional[int], family: int, kind: int, protocol: int = 0) -> socket.socket:
    """A new socket in the network namespace of `pid`, our own when it is None or the same. Raises OSError.

    A socket belongs for ever to the namespace that its maker was in, so this thread is back in its own at once.
    """
    if pid is None or net_ns(root, pid) == net_ns(root):
        return socket.socket(family, kind, protocol)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
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
