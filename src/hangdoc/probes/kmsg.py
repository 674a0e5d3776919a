"""Lines of the kernel log that explain a hang: processes killed for memory, GPU errors, tasks blocked for minutes.

Form of /dev/kmsg: Documentation/ABI/testing/dev-kmsg. Records are read without blocking; reading takes nothing away.
"""

from __future__ import annotations

import errno
import os
import re
import time
from typing import Dict, Iterable, Iterator, List, Optional, Pattern

from ..model.sample import KernelLine

DAY_S = 86400.0
LIMIT = 50
TEXT_LIMIT = 300
BUDGET_S = 0.3
KINDS: Dict[str, Pattern[str]] = {
    "oom": re.compile(r"\bKilled process (?P<pid>\d+)"),
    "xid": re.compile(
        r"NVRM: (?:GPU at .*?)?Xid (?:.*?\bpid='?(?P<pid>\d+))?"
        r"|nvidia-nvswitch.*SXid|amdgpu.*(?:GPU reset|ring .* timeout)"
    ),
    "hung-task": re.compile(r"INFO: task .*?:(?P<pid>\d+) blocked for more than \d+ seconds"),
}
_WORTH = re.compile(rb"Killed process|Xid|amdgpu|blocked for more than")  # one is in each line of these kinds


def parse(record: str) -> Optional[KernelLine]:
    """One record `prio,seq,usec,flags;text` when it is of a kind that matters, else None. Pure."""
    head, semicolon, message = record.partition(";")
    fields = head.split(",")
    if not semicolon or len(fields) < 3 or not fields[2].isdigit():
        return None
    line = message.partition("\n")[0]
    for kind, pattern in KINDS.items():
        found = pattern.search(line)
        if found:
            pid = found.groupdict().get("pid")
            return KernelLine(int(fields[2]) / 1e6, kind, line[:TEXT_LIMIT], int(pid) if pid else None)
    return None


def recent(records: Iterable[str], now: float, limit: int = LIMIT) -> List[KernelLine]:
    """The last `limit` lines that matter and are younger than a day; `now` is seconds since boot. Pure."""
    lines = [line for line in map(parse, records) if line is not None and now - line.at < DAY_S]
    return lines[-limit:]


def _records(fd: int) -> Iterator[str]:
    """Records that may be of a kind that matters, among thousands that are not."""
    end = time.monotonic() + BUDGET_S
    while time.monotonic() < end:
        try:
            data = os.read(fd, 8192)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.EPIPE:
                continue  # overwritten while we read: the next read goes on with the oldest that is left
            raise
        if not data:
            return
        if _WORTH.search(data):
            yield data.decode("utf-8", "backslashreplace")


def read(path: str = "/dev/kmsg") -> List[KernelLine]:
    """Lines that matter, oldest first. Raises OSError where the kernel log may not be read."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return recent(_records(fd), time.clock_gettime(time.CLOCK_MONOTONIC))
    finally:
        os.close(fd)
