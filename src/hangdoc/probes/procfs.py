"""Reading `/proc/PID`: through one descriptor of the folder, so that a reused pid is never read for the old process.

After the process has ended, every read through the descriptor fails with ESRCH, also when its number lives again.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Dict, List, Optional, Type

from ..model.frozen import dataclass
from ..model.sample import Unseen
from .reading import reason

TICK = float(os.sysconf("SC_CLK_TCK"))
PAGE = os.sysconf("SC_PAGE_SIZE")
READ_LIMIT = 4 << 20  # bytes of one file; the largest honest one is `maps` of a process with many areas


def say(unseen: List[Unseen], probe: str, error: OSError, what: str, pid: Optional[int] = None) -> None:
    """Append that `what` could not be seen because of `error`."""
    unseen.append(Unseen(probe, reason(error), f"{what}: {error.strerror or error}", pid))


def text(raw: bytes) -> str:
    """Bytes as text that every JSON reader accepts: what is not UTF-8 becomes `\\xNN`, never a lone surrogate."""
    return raw.decode("utf-8", "backslashreplace")


class Folder:
    """An open `/proc/PID` (or a folder of a test tree that looks like it). Raises OSError as the calls below it do."""

    def __init__(self, root: str, pid: int) -> None:
        self.pid = pid
        self.fd = os.open(f"{root}/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        os.close(self.fd)

    def read(self, name: str, limit: int = READ_LIMIT) -> bytes:
        """The whole of a small file, cut at `limit`."""
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            first = os.read(fd, 65536)
            if len(first) < 1024:  # procfs hands out its short files in one piece
                return first
            parts, size = [first], len(first)
            while size < limit:
                more = os.read(fd, 65536)
                if not more:
                    break
                parts.append(more)
                size += len(more)
            return b"".join(parts)[:limit]
        finally:
            os.close(fd)

    def link(self, name: str) -> str:
        """Text of a link."""
        return text(os.fsencode(os.readlink(name, dir_fd=self.fd)))

    def names(self, name: str) -> List[str]:
        """Entries of a folder below."""
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    def numbers(self, name: str) -> List[int]:
        """Entries of a folder below that are numbers, in order."""
        return sorted(int(one) for one in self.names(name) if one.isdigit())


@dataclass(frozen=True)
class Stat:
    """What is used of `/proc/PID/stat`, proc(5). Times are seconds; addresses are 0 for a reader without permission."""

    pid: int
    comm: str
    state: str
    ppid: int
    minflt: int
    majflt: int
    utime: float
    stime: float
    child_time: float
    num_threads: int
    start: float
    arg_start: int = 0
    arg_end: int = 0
    exit_code: int = 0


def parse_stat(raw: bytes) -> Stat:
    """Decode a `stat` line. ValueError if torn. The name stands in parentheses and may hold some itself."""
    opening, closing = raw.index(b"("), raw.rindex(b")")
    rest = raw[closing + 1 :].split()
    if len(rest) < 20:
        raise ValueError("stat line too short")

    def number(field: int) -> int:  # counted as proc(5) does, from 1
        return int(rest[field - 3]) if len(rest) > field - 3 else 0

    return Stat(
        pid=int(raw[:opening]),
        comm=text(raw[opening + 1 : closing]),
        state=text(rest[0]),
        ppid=number(4),
        minflt=number(10),
        majflt=number(12),
        utime=number(14) / TICK,
        stime=number(15) / TICK,
        child_time=(number(16) + number(17)) / TICK,
        num_threads=number(20),
        start=number(22) / TICK,
        arg_start=number(48),
        arg_end=number(49),
        exit_code=number(52),
    )


def parse_status(raw: bytes) -> Dict[str, str]:
    """The lines `Name:\\tvalue` of `status` (and of `io`, `fdinfo`, which look alike)."""
    fields = {}
    for line in text(raw).split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields[name] = value.strip()
    return fields
