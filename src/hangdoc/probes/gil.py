"""The GIL's holder and waiters of CPython 3.8 to 3.13, without symbols.

A thread that wants the GIL waits on a condition variable inside of the structure that also names the last holder; it
wakes every 5 ms. Everything is checked: a believable interval, "locked", and a holder that is a thread state of one of
the process's own threads, in two reads. Without a waiter there is no address, hence no answer.
"""

from __future__ import annotations

import struct
from typing import Dict, List, Optional

from ..model.sample import Gil, Thread
from . import pylayouts as py
from . import syscalls as sc
from .memory import Memory
from .pythreads import thread_number

_INTERVAL = (100, 1_000_000)  # microseconds that are believed; sys.setswitchinterval sets it
_GROUPS = 64  # condition variables that are looked at in one process
_THREADS = (
    152,
    136,
    176,
)  # pthread_t in PyThreadState: 3.11 and 3.13, 3.12, 3.8 to 3.10; from 3.11 on a number follows


def waiters(threads: Dict[int, Thread]) -> Dict[int, List[int]]:
    """Address of a GIL, if it is one -> threads that wait for it: timed waits on the monotonic clock."""
    groups: Dict[int, List[int]] = {}
    for tid, one in threads.items():
        if one.syscall != sc.NUMBER.get("futex") or len(one.args) < 4 or not one.args[3]:
            continue
        if one.args[1] & 0xFFFFFFFF == sc.FUTEX_WAIT_BITSET | sc.FUTEX_PRIVATE:
            groups.setdefault((one.args[0] & ~7) - py.GIL_WAITERS, []).append(tid)
    return groups


def find(memory: Memory, threads: Dict[int, Thread], tids: Dict[int, int]) -> Optional[Gil]:
    """The GIL that most threads wait for. `tids` map the target's numbers of its threads to ours."""
    groups = sorted(waiters(threads).items(), key=lambda item: -len(item[1]))
    for address, waiting in groups[:_GROUPS]:
        first = _holder(memory, address, tids)
        if first is not None and first not in waiting and _holder(memory, address, tids) == first:
            return Gil(first, tuple(sorted(waiting)))
    return None


def _holder(memory: Memory, address: int, tids: Dict[int, int]) -> Optional[int]:
    raw = memory.follow(address, py.GIL_SIZE)
    state = parse(raw)
    number = _number(memory, state, tids) if state else None
    return None if number is None else tids.get(number)


def parse(raw: Optional[bytes]) -> Optional[int]:
    """Address of the holder's thread state, from struct _gil_runtime_state; None when it is none or nobody holds it."""
    if raw is None or len(raw) < py.GIL_SIZE:
        return None
    interval, state, locked = struct.unpack_from("=QQi", raw)
    return state if _INTERVAL[0] <= interval <= _INTERVAL[1] and locked == 1 else None


def _number(memory: Memory, state: int, tids: Dict[int, int]) -> Optional[int]:
    """The number of the thread whose state is at an address, as the target knows it."""
    for offset in _THREADS:
        raw = memory.follow(state + offset, 16)
        pthread, number = struct.unpack("=QQ", raw) if raw else (0, 0)
        found = thread_number(memory, pthread, number, tids)
        if found is not None:
            return found
    return None
