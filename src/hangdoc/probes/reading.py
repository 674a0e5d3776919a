"""Small reads that cannot be tricked: bounded text, regular files only, and errors in the words of `unseen`."""

from __future__ import annotations

import errno
import os
import stat
from typing import Optional

from ..model.words import UnseenReason

REASONS = {
    errno.ENOENT: "gone",
    errno.ESRCH: "gone",
    errno.ENOTDIR: "gone",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.ENOSYS: "unsupported",
    errno.EOPNOTSUPP: "unsupported",
    errno.EAFNOSUPPORT: "unsupported",
    errno.EPROTONOSUPPORT: "unsupported",
    errno.ETIMEDOUT: "timed-out",
}


class NotRegular(OSError):
    """The path names something that must not be opened: a FIFO, a terminal, a device, a directory."""

    fifo = False


def reason(error: OSError) -> UnseenReason:
    """The word of `UnseenReason` for an error of the system; `failed` when there is no better one."""
    known: UnseenReason = REASONS.get(error.errno or 0, "failed")  # type: ignore[assignment]
    return known


def text(path: str, limit: int = 1 << 20) -> str:
    """The first `limit` bytes of a file of procfs or sysfs. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while limit > 0:
            part = os.read(fd, min(limit, 1 << 16))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
    finally:
        os.close(fd)
    return b"".join(parts).decode("utf-8", "backslashreplace")


def text_or_none(path: str, limit: int = 1 << 20) -> Optional[str]:
    """Like `text`, None instead of an error."""
    try:
        return text(path, limit)
    except OSError:
        return None


def number(path: str) -> Optional[int]:
    """The integer that a file of procfs or sysfs holds, None when it is missing or holds something else."""
    found = (text_or_none(path, 64) or "").strip()
    return int(found) if found.lstrip("-").isdigit() else None


def bounded(size: int) -> int:
    """A size that every JSON reader takes: file systems of no fixed size (FUSE on object stores) tell 2**64 and more."""
    return min(size, (1 << 63) - 1)


def open_regular(path: str) -> int:
    """Open a regular file for reading and give its descriptor. Raises NotRegular or another OSError.

    O_PATH touches the name only: opening a FIFO, even without blocking, releases whoever waits at its other end.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            error = NotRegular(errno.EINVAL, "not a regular file", path)
            error.fifo = stat.S_ISFIFO(mode)
            raise error
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def below(root: str, pid: int, path: str) -> str:
    """`path` as the process sees it: below its own root directory."""
    return f"{root}/{pid}/root{path}"
