"""What every process of the miniature does first: bound its life, let itself be looked at, take its title."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

_libc = ctypes.CDLL(None, use_errno=True)
_kept: list[object] = []  # memory that libc points to


def live_and_die_with_parent() -> None:
    """End when the parent ends, and after MINIATURE_SECONDS in any case; let any process of this user trace us."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    expected = os.environ.get("MINIATURE_PARENT")
    if expected and os.getppid() != int(expected):
        sys.exit("the parent ended before the miniature began")
    os.environ["MINIATURE_PARENT"] = str(os.getpid())  # children compare with us
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(os.environ.get("MINIATURE_SECONDS", "600")))
    # Yama (ptrace_scope 1) lets only ancestors trace; hangdoc is none.
    _libc.prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def set_title(title: str) -> None:
    """Show `title` in ps, by overwriting the memory of arguments and environment as setproctitle does."""
    _libc.prctl(_PR_SET_NAME, title.encode()[:15], 0, 0, 0)
    try:
        start, end = _argument_area()
    except (OSError, ValueError, IndexError):
        return  # a name in comm is better than none
    _move_environment()
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, title.encode(), min(len(title), end - start - 1))


def say(message: str, rank: int | None = None) -> None:
    """One line of the log, with SGLang's prefix."""
    place = "" if rank is None else f" TP{rank}"
    sys.stderr.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{place}] {message}\n")
    sys.stderr.flush()


def _argument_area() -> tuple[int, int]:
    """Addresses of the first byte of the arguments and of the one after the environment: proc(5), stat, 48 to 51."""
    with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - one plain read
        fields = stat.read().rpartition(b")")[2].split()
    first, last = int(fields[45]), int(fields[48])
    if not 0 < last - first < 1 << 21 or first == 0:
        raise ValueError("the kernel hides where the arguments are")
    return first, last


def _move_environment() -> None:
    """Give libc a copy of the environment, for the area that holds it is about to be overwritten."""
    pairs = [ctypes.create_string_buffer(name + b"=" + value) for name, value in os.environb.items()]
    table = (ctypes.c_void_p * (len(pairs) + 1))(*[ctypes.addressof(pair) for pair in pairs], None)
    _kept.extend([pairs, table])
    ctypes.c_void_p.in_dll(_libc, "environ").value = ctypes.addressof(table)
