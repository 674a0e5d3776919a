"""Numbers of the system calls in which a start can block, by machine. Data only, standard library and Python 3.8.

Sources: Linux `arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h` (aarch64). Names are those
of the manual pages.
"""

from __future__ import annotations

from typing import Dict

NUMBERS: Dict[str, Dict[str, int]] = {
    "x86_64": {
        "read": 0, "write": 1, "open": 2, "poll": 7, "ioctl": 16, "pread64": 17, "pwrite64": 18, "readv": 19,
        "writev": 20, "select": 23, "sched_yield": 24, "pause": 34, "nanosleep": 35, "connect": 42, "accept": 43,
        "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "clone": 56, "fork": 57, "vfork": 58, "wait4": 61,
        "fcntl": 72, "flock": 73, "fsync": 74, "rt_sigtimedwait": 128, "rt_sigsuspend": 130, "futex": 202,
        "restart_syscall": 219, "clock_nanosleep": 230, "epoll_wait": 232, "waitid": 247, "openat": 257,
        "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "accept4": 288, "recvmmsg": 299, "clone3": 435,
        "semop": 65, "semtimedop": 220,
        "io_uring_enter": 426, "openat2": 437, "epoll_pwait2": 441, "futex_waitv": 449,
    },
    "aarch64": {
        "epoll_pwait": 22, "fcntl": 25, "ioctl": 29, "flock": 32, "openat": 56, "read": 63, "write": 64, "readv": 65,
        "writev": 66, "pread64": 67, "pwrite64": 68, "pselect6": 72, "ppoll": 73, "fsync": 82, "waitid": 95,
        "futex": 98, "nanosleep": 101, "clock_nanosleep": 115, "sched_yield": 124, "restart_syscall": 128,
        "rt_sigsuspend": 133, "rt_sigtimedwait": 137, "accept": 202, "connect": 203, "sendto": 206, "recvfrom": 207,
        "sendmsg": 211, "recvmsg": 212, "clone": 220, "accept4": 242, "recvmmsg": 243, "wait4": 260, "clone3": 435,
        "semtimedop": 192, "semop": 193, "io_uring_enter": 426,
        "openat2": 437, "epoll_pwait2": 441, "futex_waitv": 449,
    },
}  # fmt: skip
NAMES: Dict[str, Dict[int, str]] = {
    arch: {number: name for name, number in table.items()} for arch, table in NUMBERS.items()
}
# Calls whose first argument is a descriptor.
TAKES_FD = frozenset((
    "read", "write", "ioctl", "pread64", "pwrite64", "readv", "writev", "connect", "accept", "accept4", "sendto", "recvfrom",
    "sendmsg", "recvmsg", "recvmmsg", "fcntl", "flock", "fsync", "epoll_wait", "epoll_pwait", "epoll_pwait2", "lseek",
    "sendmmsg", "shutdown", "ftruncate", "fstat", "close", "epoll_ctl", "preadv", "pwritev",
))  # fmt: skip
