"""What a disposable child is: it holds nothing but its pipes, dies with its parent, and does task after task of a queue.

What it writes, one line each: `=NUMBER` takes a task of the queue, `+JSON` is a part of its answer, `!` ends it,
`!WORDS` ends it with an error, and the child with it: nobody knows in what state that left it; `.` says that no task is
left.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
from typing import Any, Callable, Optional, Sequence, Set

from ..model.plain import to_plain

NUMBER = 4  # bytes of one number in the queue
_PR_SET_PDEATHSIG = 1

Emit = Callable[[Any], None]
Task = Callable[[Emit], None]


def _libc() -> Optional[ctypes.CDLL]:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


_LIBC = _libc()  # loaded before any fork


def seal(keep: Set[int]) -> None:
    """Make this forked process disposable: `/dev/null` on 0 to 2, nothing else open, own session, dies with its parent.

    An unkillable child that kept an inherited pipe would keep the caller's ssh or shell pipeline from ever ending.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in keep:
            with contextlib.suppress(OSError):
                os.close(number)
    os.setsid()
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def words(error: BaseException) -> str:
    """What went wrong, in one line."""
    return " ".join(f"{type(error).__name__}: {error}"[:500].split())


def work(tasks: Sequence[Task], queue: int, writing: int, keep: Set[int], parent: int) -> None:
    """The life of a forked child; never returns."""
    status = 1
    try:
        gc.disable()
        seal(keep | {queue, writing})
        if os.getppid() != parent:
            os._exit(1)  # the parent died before PDEATHSIG was set

        def send(kind: bytes, words: str = "") -> None:
            view = memoryview(kind + words.encode(errors="replace") + b"\n")
            while view:
                view = view[os.write(writing, view) :]

        def emit(value: Any) -> None:
            send(b"+", json.dumps(to_plain(value), separators=(",", ":"), allow_nan=False))

        for number in iter(lambda: os.read(queue, NUMBER), b""):
            place = int.from_bytes(number, "little")
            send(b"=", str(place))
            try:
                tasks[place](emit)
            except BaseException as error:  # whatever it is, the parent has to hear of it
                send(b"!", words(error))
                raise
            send(b"!")
        send(b".")
        status = 0
    finally:
        os._exit(status)
