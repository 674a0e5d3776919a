"""Numbers of system calls by machine, and the layouts of what glibc waits on. Data only.

Sources: Linux `arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h` (aarch64), `linux/futex.h`;
glibc `sysdeps/nptl/bits/struct_mutex.h`, `struct_rwlock.h`, the same on both machines.
"""

from __future__ import annotations

import os
from typing import Dict

_X86_64 = {
    "read": 0, "write": 1, "open": 2, "poll": 7, "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "select": 23,
    "nanosleep": 35, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47,
    "vfork": 58,
    "wait4": 61, "fcntl": 72, "flock": 73, "fsync": 74, "futex": 202, "restart_syscall": 219, "clock_nanosleep": 230,
    "epoll_wait": 232, "waitid": 247, "openat": 257, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "accept4": 288,
    "clone3": 435, "openat2": 437, "epoll_pwait2": 441, "futex_waitv": 449,
}  # fmt: skip
_AARCH64 = {
    "epoll_pwait": 22, "fcntl": 25, "flock": 32, "openat": 56, "read": 63, "write": 64, "readv": 65, "writev": 66,
    "pread64": 67, "pwrite64": 68, "pselect6": 72, "ppoll": 73, "fsync": 82, "waitid": 95, "futex": 98,
    "nanosleep": 101,
    "clock_nanosleep": 115, "restart_syscall": 128, "accept": 202, "connect": 203, "sendto": 206, "recvfrom": 207,
    "sendmsg": 211, "recvmsg": 212, "accept4": 242, "wait4": 260, "clone3": 435, "openat2": 437, "epoll_pwait2": 441,
    "futex_waitv": 449,
}  # fmt: skip
TABLES: Dict[str, Dict[str, int]] = {"x86_64": _X86_64, "aarch64": _AARCH64}

MACHINE = os.uname().machine
NUMBER: Dict[str, int] = TABLES.get(MACHINE, {})  # name -> number here; empty on a machine we have no table for
NAME: Dict[int, str] = {number: name for name, number in NUMBER.items()}

# futex(2) operations, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI2 = 0, 6, 9, 13
FUTEX_PRIVATE, FUTEX_REALTIME, FUTEX_COMMAND = 0x80, 0x100, 0x7F
FUTEX_OWNER_DIED, FUTEX_TID = 0x40000000, 0x3FFFFFFF

CLOCK_REALTIME, CLOCK_MONOTONIC, TIMER_ABSTIME = 0, 1, 1

# pthread_mutex_t, from its futex word: where the owner, the number of users and the kind are
MUTEX_OWNER, MUTEX_USERS, MUTEX_KIND, MUTEX_SIZE = 8, 12, 16, 20
MUTEX_TYPE, MUTEX_ROBUST, MUTEX_PI = 0x3, 0x10, 0x20
MUTEX_KNOWN_BITS = 0x3B3  # type, robust, PI, shared 0x80, elision 0x100 and 0x200
# pthread_rwlock_t: readers wait on +8, writers on +12; its writer is at +24; the low bits of +0 say "held by a writer"
RWLOCK_READERS_WAIT, RWLOCK_WRITERS_WAIT, RWLOCK_OWNER, RWLOCK_HELD_BY_WRITER = 8, 12, 24, 0x2
# pthread_cond_t: waiters sleep on one of two words; the word before them counts waiters from bit 3
COND_SIGNALS, COND_WAITERS = (40, 44), 36
