"""How full a pipe is: bytes that lie unread, and how many fit.

The pipe is asked through a copy of the target's descriptor (pidfd_getfd, Linux 5.6), which never opens a name: opening
a FIFO would let the process at its other end go on. The copy is closed at once; while it lives nothing is told to
anybody at either end, for it is the same open file.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import termios
from typing import Dict, List, Optional, Tuple

from ..model.frozen import replace
from ..model.sample import Fd, Process, Thread, Unseen
from . import syscalls as sc
from .processes import stat_of
from .reading import reason

PIDFD_OPEN, PIDFD_GETFD = 434, 438  # the same on every machine
_GETPIPE_SZ = 1032  # F_GETPIPE_SZ, which Python names from 3.10 on
_TRANSFERS = ("read", "write", "readv", "writev")
_LIMIT = 32  # pipes of one process


def of_interest(threads: Dict[int, Thread], fds: Dict[int, Fd]) -> Dict[int, str]:
    """Descriptors that are pipes and that a thread is blocked in, or that are fd 1 or 2 -> their kind."""
    found: Dict[int, str] = {number: "pipe" for number in (1, 2) if number in fds and fds[number].kind == "pipe"}
    for one in threads.values():
        call = sc.NAME.get(one.syscall if one.syscall is not None else -1)
        if call not in _TRANSFERS or not one.args or one.args[0] not in fds:
            continue
        number = one.args[0]
        if fds[number].kind == "pipe":
            found[number] = "pipe"
        elif "pipe" in (one.wchan or "") and fds[number].kind in ("file", "fifo"):
            found[number] = "fifo"  # a pipe with a name; its link names that only
    return dict(sorted(found.items())[:_LIMIT])


def fill(
    root: str, process: Process, threads: Dict[int, Thread], fds: Dict[int, Fd], unseen: List[Unseen]
) -> Dict[int, Fd]:
    """Descriptors of interest with `unread` and `capacity`, as far as that is permitted."""
    wanted = of_interest(threads, fds)
    if not wanted:
        return {}
    filled = {number: replace(fds[number], kind=kind) for number, kind in wanted.items()}
    try:
        handle = _call(PIDFD_OPEN, process.pid, 0)
        try:
            now = stat_of(root, process.pid)
            if now is None or now.start != process.start:  # another process has the number, here as for the handle
                return filled
            for number, one in filled.items():
                unread, capacity = _ask(handle, number)
                filled[number] = replace(one, unread=unread, capacity=capacity)
        finally:
            os.close(handle)
    except OSError as error:
        unseen.append(Unseen("fds", reason(error), f"bytes in pipes: {error.strerror}", process.pid))
    return filled


def _ask(handle: int, number: int) -> Tuple[Optional[int], Optional[int]]:
    """(bytes unread, bytes that fit). Raises OSError when the descriptor may not be copied."""
    copy = _call(PIDFD_GETFD, handle, number, 0)
    try:
        size = array.array("i", [0])
        with contextlib.suppress(OSError):
            capacity = fcntl.fcntl(copy, _GETPIPE_SZ)
            fcntl.ioctl(copy, termios.FIONREAD, size)
            return size[0], capacity
    finally:
        os.close(copy)
    return None, None  # something else has that number by now


def _call(number: int, *args: int) -> int:
    """A system call that Python 3.8 does not have. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result = int(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in args)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
