"""Where in the kernel a thread is stuck: `/proc/PID/task/TID/stack`, for root alone.

The wait channel names one function; only the functions above it tell a file system's server from a GPU's driver. Reading
stops no thread (`proc_pid_stack` of fs/proc/base.c unwinds it where it lies), but takes a lock that an exec holds, so it is
done in a disposable child.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from ..model.sample import Unseen
from .procfs import Folder, parse_stat, say, text

THREADS, STACKS, FRAMES = 2048, 16, 32
RUNNING = 4  # threads in state R that are looked at: one that spins in a driver is never in D
_FRAME = re.compile(r"(?:\[<[0-9a-fx]+>\]\s+)?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?:\s+\[(\w+)\])?")


def read(root: str, pid: int, unseen: List[Unseen]) -> Optional[Dict[int, Tuple[str, ...]]]:
    """Kernel functions of each thread in state D, innermost first, "FUNCTION" or "FUNCTION [MODULE]".

    Threads in state R too, where they run in the kernel and that may be read: ordinary users are not told so for each busy
    process. Nothing for the others. None where a thread in state D may not be read.
    """
    found: Dict[int, Tuple[str, ...]] = {}
    running = 0
    try:
        with Folder(root, pid) as folder:
            for tid in folder.numbers("task")[:THREADS]:
                state = _state(folder, tid)
                if state == "R":
                    running += 1
                if state not in "DR" or (state == "R" and running > RUNNING) or len(found) >= STACKS:
                    continue
                try:
                    frames = parse(text(folder.read(f"task/{tid}/stack", 1 << 14)))
                except OSError:
                    if state == "D":
                        raise
                    frames = ()
                if frames:
                    found[tid] = frames
    except OSError as error:
        say(unseen, "kernel", error, "kernel stacks", pid)
        return None
    return found


def _state(folder: Folder, tid: int) -> str:
    try:
        return parse_stat(folder.read(f"task/{tid}/stat")).state
    except (OSError, ValueError):  # the thread has ended
        return "X"


def parse(content: str) -> Tuple[str, ...]:
    """Frames of the text of `stack`. Those of the way into the kernel, which every call has, are left out. Pure."""
    frames = []
    for line in content.splitlines():
        one = _FRAME.match(line.strip())
        if one and not one[1].startswith(("do_syscall_64", "entry_SYSCALL", "el0", "invoke_syscall", "ret_from_fork")):
            frames.append(f"{one[1]} [{one[2]}]" if one[2] else one[1])
    return tuple(frames[:FRAMES])
