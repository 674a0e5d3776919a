"""How and when the processes that are looked at end, seen as it happens: one pidfd for each, polled between questions.

A pidfd becomes readable when its process ends (pidfd_open(2)); it takes nothing from the parent, which reaps as before.
The wait status comes from `stat` while the zombie is there and may be read, and from PIDFD_GET_INFO afterwards (Linux
6.15). Where pidfds are missing (Linux before 5.3, Python 3.8) nothing is known, and nothing is lost.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import struct
import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..model.plain import to_plain
from ..model.sample import Ended, Process
from ..probes import processes

LIMIT = 512  # processes that are held
_SHARE = 4  # a pidfd is a descriptor: one in so many of those that may be open, the others are for reading
_INFO = struct.Struct("=QQ11Ii")  # struct pidfd_info of linux/pidfd.h: mask, cgroup id, eleven ids, exit_code
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11  # _IOWR(0xFF, 11, struct pidfd_info)
_INFO_EXIT = 1 << 3


def status_of(pidfd: int) -> Optional[int]:
    """Wait status of a process that has been reaped; None where the kernel does not tell."""
    try:
        raw = fcntl.ioctl(pidfd, _GET_INFO, _INFO.pack(_INFO_EXIT, *[0] * 13))
    except OSError:
        return None
    fields = _INFO.unpack(raw)
    return fields[-1] if fields[0] & _INFO_EXIT else None


class Deaths:
    """The processes that are held, and the ends that were seen."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._held: Dict[int, Tuple[int, float]] = {}  # pidfd -> pid, start
        self._pids: Dict[Tuple[int, float], int] = {}
        self._waiting: Dict[int, Ended] = {}  # pidfd of a process that ended and whose status is not known yet
        self._done: List[Ended] = []
        self._poller = select.poll()

    def hold(self, members: Mapping[int, Process]) -> None:
        """Watch these processes, too."""
        opener = getattr(os, "pidfd_open", None)
        if opener is None:
            return
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = LIMIT if allowed == resource.RLIM_INFINITY else min(LIMIT, allowed // _SHARE)
        for pid, process in members.items():
            if (pid, process.start) in self._pids or process.state in "ZX" or len(self._pids) >= limit:
                continue
            try:
                pidfd = opener(pid)
            except OSError:
                continue
            try:
                stat = processes.stat_of(self.root, pid)
            except OSError:
                stat = None
            if stat is None or stat.start != process.start:  # the number went to another process meanwhile
                os.close(pidfd)
                continue
            self._held[pidfd] = (pid, process.start)
            self._pids[pid, process.start] = pidfd
            self._poller.register(pidfd, select.POLLIN)

    def wait_for(self, fd: int, limit_s: Optional[float] = None) -> bool:
        """Whether `fd` can be read within `limit_s` (None: for ever); note meanwhile who ends."""
        end = None if limit_s is None else time.monotonic() + limit_s
        self._poller.register(fd, select.POLLIN)
        try:
            while not self._look(fd, None if end is None else max(0, int((end - time.monotonic()) * 1000) + 1)):
                if end is not None and time.monotonic() >= end:
                    return False
            return True
        finally:
            self._poller.unregister(fd)

    def take(self) -> List[Any]:
        """Ends seen since the last call, in their order, as plain values."""
        self._look(-1, 0)
        for pidfd, ended in list(self._waiting.items()):
            status = self._status(pidfd, ended)
            # A zombie that nobody reaps, or whose status is refused, is told without it.
            self._done.append(Ended(ended.pid, ended.start, ended.at, status))
            self._forget(pidfd, ended)
        found = sorted(self._done, key=lambda one: one.at)
        self._done = []
        return [to_plain(one) for one in found]

    def _look(self, fd: int, timeout: Optional[int]) -> bool:
        readable = False
        now = time.monotonic()
        for number, _ in self._poller.poll(timeout):
            if number == fd:
                readable = True
            elif number in self._held:
                pid, start = self._held.pop(number)
                self._poller.unregister(number)
                ended = Ended(pid, start, max(now, time.monotonic()))
                status = self._status(number, ended)
                if status is None:
                    self._waiting[number] = ended
                else:
                    self._done.append(Ended(pid, start, ended.at, status))
                    self._forget(number, ended)
        return readable

    def _status(self, pidfd: int, ended: Ended) -> Optional[int]:
        known = status_of(pidfd)
        if known is not None:
            return known
        found = processes.state(self.root, ended.pid, ended.start, [])
        return found.exit_code if found is not None else status_of(pidfd)

    def _forget(self, pidfd: int, ended: Ended) -> None:
        self._waiting.pop(pidfd, None)
        self._pids.pop((ended.pid, ended.start), None)
        os.close(pidfd)
