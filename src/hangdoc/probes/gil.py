"""The GIL's holder and waiters of CPython 3.8 to 3.13, without symbols.

A thread that wants the GIL waits on a condition variable inside of the structure that also names the last holder; it
wakes every 5 ms. Everything is checked: a believable interval, "locked", and a holder that is a thread state of one of
the process's own threads, in two reads. Without a waiter there is no address, hence no answer.
"""

from __future__ import annotations

import struct
from typing import Dict, List, Optional, Tuple

from ..model.sample import Gil, Thread
from . import pylayouts as py
from . import syscalls as sc
from .memory import Memory

_INTERVAL = (100, 1_000_000)  # microseconds that are believed; sys.setswitchinterval sets it
_GROUPS = 64  # condition variables that are looked at in one process
_NUMBERS = (144, 160)  # where PyThreadState of 3.11 to 3.13 has the thread's number, behind its pthread_t


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
    raw = memory.follow(state, py.STATE_SIZE)
    for offset in _NUMBERS if raw is not None else ():
        pthread, number = _pair(raw, offset - 8)
        if number in tids and pthread and pthread % 8 == 0:
            return number
    old = memory.follow(state + py.OLD_THREAD, 8)
    offset_of_tid = py.PTHREAD_TID.get(sc.MACHINE)
    if old is None or offset_of_tid is None:
        return None
    found = memory.follow(struct.unpack("=Q", old)[0] + offset_of_tid, 4)
    number = struct.unpack("=I", found)[0] if found else 0
    return number if number in tids else None


def _pair(raw: Optional[bytes], offset: int) -> Tuple[int, int]:
    first, second = struct.unpack_from("=QQ", raw or b"", offset)
    return first, second
