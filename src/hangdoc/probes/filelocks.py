"""Locks on files: who holds them and who waits, from `/proc/locks` and the `lock:` lines of fdinfo.

`/proc/locks` names the process that took a lock, which may have ended since, and leaves out processes of other pid
namespaces. The lock itself belongs to the open file: whoever has it open, a forked child too, holds it, and its fdinfo
says so. Forms: proc_locks(5), `fs/locks.c`.
"""

from __future__ import annotations

import os
import re
import time
from typing import Collection, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..model.frozen import dataclass, replace
from ..model.sample import FileLock, Thread
from . import syscalls as sc
from .fds import parse_info
from .procfs import Folder
from .reading import text

_LINE = re.compile(
    r"(?P<number>\d+):\s+(?P<arrow>(?:->\s+)?)(?P<kind>FLOCK|POSIX|OFDLCK)\s+\S+\s+(?P<mode>READ|WRITE)\s+"
    r"(?P<pid>-?\d+)\s+(?P<device>[0-9a-f]+:[0-9a-f]+):(?P<inode>\d+)\s+(?P<first>\d+)\s+(?P<last>\d+|EOF)\s*\Z"
)
SETLKW, OFD_SETLKW = 7, 38  # commands of fcntl(2) that wait, fcntl.h
SEARCH_S = 0.3
Key = Tuple[str, str, int, str, int, str]  # kind, mode, pid, device, inode, range


@dataclass(frozen=True)
class Line:
    """One line. `number` joins a lock with those who wait for it."""

    number: int
    waits: bool
    kind: str
    mode: str
    pid: int
    device: str
    inode: int
    range: str

    @property
    def key(self) -> Key:
        """What the same lock's lines have in common in `/proc/locks` and in any fdinfo."""
        return self.kind, self.mode, self.pid, self.device, self.inode, self.range


def parse(lines: Iterable[str]) -> List[Line]:
    """Lines of `/proc/locks` or fdinfo; those of another form (leases) are passed over. Pure."""
    found = []
    for line in lines:
        one = _LINE.match(line.strip())
        if one:
            found.append(
                Line(
                    int(one["number"]), bool(one["arrow"]), one["kind"], one["mode"], int(one["pid"]),
                    one["device"], int(one["inode"]), f"{one['first']} {one['last']}",
                )
            )  # fmt: skip
    return found


def descriptor_waited_for(thread: Thread) -> Optional[int]:
    """The descriptor whose file a thread waits to lock, None when it does not. Pure."""
    call = sc.NAME.get(thread.syscall if thread.syscall is not None else -1)
    if call == "flock" or (call == "fcntl" and len(thread.args) > 1 and thread.args[1] in (SETLKW, OFD_SETLKW)):
        return thread.args[0] if thread.args else None
    return None


def build(
    lines: Iterable[str],
    paths: Mapping[int, str],
    held: Mapping[int, Iterable[str]],
    waiting: Mapping[int, Collection[int]],
) -> Tuple[List[FileLock], List[str]]:
    """(locks on files that a member has open, their lines in `/proc/locks`). Pure.

    `paths`: inode -> path of what members have open; `held`: pid -> `lock:` lines of its fdinfo; `waiting`: pid ->
    inodes that its threads wait to lock.
    """
    holding: Dict[Key, Set[int]] = {}
    for pid, own in held.items():
        for one in parse(own):
            holding.setdefault(one.key, set()).add(pid)
    kept = [line for line in lines if any(one.inode in paths for one in parse([line]))]
    groups: Dict[Key, Set[int]] = {key: set() for key in holding}
    holder_of: Dict[int, Key] = {}
    for one in parse(kept):
        if not one.waits:
            holder_of[one.number] = one.key
            groups.setdefault(one.key, set())
        elif one.number in holder_of and one.pid > 0:
            groups[holder_of[one.number]].add(one.pid)
    locks = []
    for key, listed in groups.items():
        waiters = set(listed)
        kind, mode, pid, device, inode, range_ = key
        if kind == "FLOCK" and len([other for other in groups if other[0] == kind and other[3:5] == key[3:5]]) == 1:
            # The only lock on this file: whoever waits in flock waits for it, also when /proc/locks hides him.
            waiters |= {one for one, files in waiting.items() if inode in files}
        locks.append(
            FileLock(
                inode, device, kind, mode, range_, paths.get(inode), tuple(sorted(holding.get(key, ()))),
                tuple(sorted(waiters)), pid if pid > 0 else None,
            )
        )  # fmt: skip
    return sorted(locks, key=lambda one: (one.device, one.inode, one.range, one.mode)), kept


def incomplete(locks: Iterable[FileLock]) -> List[FileLock]:
    """Locks that somebody waits for and whose holder is no member."""
    return [one for one in locks if one.waiters and not one.holders]


def find_holders(
    root: str, locks: Iterable[FileLock], members: Collection[int], budget_s: float = SEARCH_S
) -> List[FileLock]:
    """The same locks with holders outside of the launch, looked for in all processes that may be read, within a time.

    The process that took the lock comes first, then its neighbours by number: children are born next to their parents.
    """
    locks = list(locks)
    wanted = incomplete(locks)
    names = {(one.path or "").rpartition("/")[2] for one in wanted}
    near = [one.owner for one in wanted if one.owner]
    end = time.monotonic() + budget_s
    holders: Dict[Key, Set[int]] = {}
    others = [int(one) for one in os.listdir(root) if one.isdigit() and int(one) not in members] if wanted else []
    for pid in sorted(others, key=lambda pid: min([abs(pid - one) for one in near] or [0])):
        if time.monotonic() > end:
            break
        for one in _locks_of(root, pid, names):
            holders.setdefault(one.key, set()).add(pid)
    filled = []
    for lock in locks:
        key = (lock.kind, lock.mode, lock.owner or -1, lock.device, lock.inode, lock.range)
        found = holders.get(key) if not lock.holders else None
        filled.append(replace(lock, holders=tuple(sorted(found))) if found else lock)
    return filled


def _locks_of(root: str, pid: int, names: Set[str]) -> List[Line]:
    """Locks that a process holds on files of these names (the folders may be other ones in its mount namespace)."""
    found: List[Line] = []
    try:
        with Folder(root, pid) as folder:
            for number in folder.numbers("fd"):
                name = folder.link(f"fd/{number}").rpartition("/")[2]
                if name in names:
                    found += parse(parse_info(folder.read(f"fdinfo/{number}", 1 << 16)).get("lock", ()))
    except (OSError, ValueError):
        return found
    return found


def read_lines(root: str, limit: int = 1 << 20) -> List[str]:
    """Lines of `/proc/locks`, which never blocks. Raises OSError."""
    return text(root + "/locks", limit).splitlines()
