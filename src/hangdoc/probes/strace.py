"""Every system call of one process for a short time, by strace. It pauses what it looks at: only under the guardian.

`raw=all` prints arguments as numbers, so that strace reads none of the target's memory: a string there may lie on a file
system that does not answer, and what it says may be secret.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from typing import Dict, Iterator, List, Optional, Tuple

from ..model.deep import Trace, TracedCall
from ..model.sample import Fd
from ..model.syscalls import TAKES_FD
from . import pyspy

OLDEST = (5, 0)  # seizes (PTRACE_SEIZE) and knows the options below
_SIZED = frozenset(("read", "write", "pread64", "pwrite64", "sendto", "recvfrom"))
_KEPT = 32
_LINE = re.compile(r"^(?:\[pid\s+(\d+)\] )?(.*)$")
_CALL = re.compile(r"^(\w+)\(([^)<]*)")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>")
_RESULT = re.compile(r"\)\s+= (-?\w+)(?: ([A-Z][A-Z0-9]+))?")
Call = Tuple[int, str, Optional[int], Optional[int], str]  # thread, name, descriptor, size, error


def find() -> Tuple[Optional[str], str]:
    """(path, version) of a strace >= 5.0 on PATH; (None, why) without."""
    path = shutil.which("strace")
    if path is None:
        return None, "strace is not installed"
    code, out, _ = pyspy.run([path, "-V"], pyspy.VERSION_DEADLINE_S)
    found = re.search(rb"version (\d+)\.(\d+)", out) if code == 0 else None
    if found is None or tuple(map(int, found.groups())) < OLDEST:
        return None, f"{path} is older than {OLDEST[0]}.{OLDEST[1]}, or does not say"
    return path, found.group(0).decode().partition(" ")[2]


def command(path: str, pid: int) -> List[str]:
    """What is run. It ends only when it is killed."""
    return [path, "-f", "-q", "-e", "raw=all", "-e", "signal=none", "-p", str(pid)]


def summarise(lines: str, pid: int, seconds: float, table: Dict[int, Fd]) -> Trace:
    """Count strace's lines. `pid` is the thread of lines without a number, `table` the process's descriptors. Pure."""
    counted = Counter(_calls(lines, pid))
    rows = [
        TracedCall(tid, name, count, fd, table[fd].target if fd in table else "", size, error)
        for (tid, name, fd, size, error), count in counted.most_common(_KEPT)
    ]
    return Trace(round(seconds, 3), tuple(rows), cut=len(counted) > _KEPT)


def _calls(lines: str, pid: int) -> Iterator[Call]:
    """Calls that ended. One that was under way when strace came has a name, but no arguments."""
    begun: Dict[int, str] = {}  # thread -> the first half of a call that another thread's line cut in two
    for line in lines.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        tid, words = int(found.group(1) or pid), found.group(2)
        if words.endswith("<unfinished ...>"):
            begun[tid] = words
            continue
        resumed = _RESUMED.match(words)
        head = begun.pop(tid, f"{resumed.group(1)}(") if resumed else words
        call, result = _CALL.match(head), _RESULT.search(words)
        if call is None or result is None or result.group(1) == "?":
            continue
        yield _call(tid, call.group(1), call.group(2), result.group(2) or "")


def _call(tid: int, name: str, arguments: str, error: str) -> Call:
    values = [_number(one) for one in arguments.split(",")]
    fd = values[0] if name in TAKES_FD else None
    size = values[2] if name in _SIZED and len(values) > 2 else None
    return tid, name, fd, size, error


def _number(word: str) -> Optional[int]:
    try:
        return int(word.strip(), 0)
    except ValueError:
        return None
