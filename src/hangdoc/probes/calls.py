"""What the arguments of a blocked system call point at: deadlines, polled descriptors, a path."""

from __future__ import annotations

import struct
import time
from typing import List, Optional, Set, Tuple

from ..model.frozen import replace
from ..model.sample import Thread
from . import syscalls as sc
from .memory import Memory
from .procfs import text

_POLL_LIMIT = 1024
_POLLS, _SELECTS = ("poll", "ppoll"), ("select", "pselect6")
_PATHS = {"open": 0, "openat": 1, "openat2": 1}  # call -> which argument is the path
DECODED = frozenset((*_POLLS, *_SELECTS, *_PATHS, "futex", "futex_waitv", "clock_nanosleep"))


def parse_schedstat(raw: bytes) -> Tuple[Optional[int], Optional[int], Optional[int]]:
    """(ns on a CPU, ns runnable, times put on one) of `schedstat`; a kernel that does not count gives zeros: None."""
    words = raw.split()
    if len(words) != 3 or words[2] == b"0":
        return None, None, None
    return int(words[0]), int(words[1]), int(words[2])


def parse_syscall(raw: bytes) -> Tuple[Optional[int], Tuple[int, ...], Optional[int], Optional[int]]:
    """(number, arguments, stack pointer, program counter) of `syscall`; number None when it runs or is unseen."""
    words = raw.split()
    if len(words) == 9:
        values = [int(word, 16) for word in words[1:]]
        return int(words[0]), tuple(values[:6]), values[6], values[7]
    if len(words) == 3:  # blocked, but in no system call: a page fault
        return int(words[0]), (), int(words[1], 16), int(words[2], 16)
    return None, (), None, None


def decode(memory: Memory, thread: Thread, call: str) -> Thread:
    """The thread with what its call's arguments point at, as far as it may be read."""
    args = thread.args
    if len(args) < 6:
        return thread
    when = deadline_argument(call, args)
    if when is not None:
        return replace(thread, deadline=monotonic(memory.read(when[0], 16), when[1]))
    if call in _POLLS and 0 < args[1] <= _POLL_LIMIT:
        return replace(thread, poll=poll_fds(memory.read(args[0], 8 * args[1])))
    if call in _SELECTS and 0 < args[0] <= _POLL_LIMIT:
        size = (args[0] + 63) // 64 * 8
        sets = [memory.read(address, size) for address in args[1:4] if address]
        return replace(thread, poll=select_fds(sets, args[0]))
    if call in _PATHS:
        path = memory.text(args[_PATHS[call]])
        return replace(thread, path=None if path is None else text(path))
    return thread


def deadline_argument(call: str, args: Tuple[int, ...]) -> Optional[Tuple[int, int]]:
    """(address of an absolute timespec, its clock); None when the call has no time-out or only a length.

    The time-outs of poll, epoll_wait, select, nanosleep, plain FUTEX_WAIT are lengths: when they began is unknown.
    """
    if call == "futex":
        operation = args[1]
        command = operation & sc.FUTEX_COMMAND
        if command in (sc.FUTEX_WAIT_BITSET, sc.FUTEX_LOCK_PI2):
            clock = sc.CLOCK_REALTIME if operation & sc.FUTEX_REALTIME else sc.CLOCK_MONOTONIC
        elif command == sc.FUTEX_LOCK_PI:
            clock = sc.CLOCK_REALTIME
        else:
            return None
        return (args[3], clock) if args[3] else None
    if call == "futex_waitv":
        return (args[3], args[4]) if args[3] else None
    if call == "clock_nanosleep" and args[1] & sc.TIMER_ABSTIME:
        return args[2], args[0]
    return None


def monotonic(raw: Optional[bytes], clock: int) -> Optional[float]:
    """A timespec of a clock as seconds of CLOCK_MONOTONIC; None when it is none, or of a clock that we do not know."""
    if raw is None or clock not in (sc.CLOCK_REALTIME, sc.CLOCK_MONOTONIC):
        return None
    seconds, nanoseconds = struct.unpack("=qq", raw)
    if seconds < 0 or not 0 <= nanoseconds < 10**9:
        return None
    value = float(seconds + nanoseconds / 1e9)
    if clock == sc.CLOCK_REALTIME:
        # Rounded, so that the same wall-clock deadline gives the same number at every look.
        value = round(value - (time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)), 2)
    return value


def poll_fds(raw: Optional[bytes]) -> Tuple[int, ...]:
    """Descriptors of an array of struct pollfd {int fd; short events, revents}; poll(2) skips negative ones."""
    return tuple(fd for fd, _, _ in struct.iter_unpack("=ihh", raw or b"") if fd >= 0)


def select_fds(sets: List[Optional[bytes]], count: int) -> Tuple[int, ...]:
    """Descriptors in any of the bit sets."""
    found: Set[int] = set()
    for raw in sets:
        bits = int.from_bytes(raw or b"", "little")
        found.update(fd for fd in range(count) if bits >> fd & 1)
    return tuple(sorted(found))
