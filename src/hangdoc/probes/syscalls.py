"""Numbers of system calls by machine, and the layouts of what glibc waits on. Data only.

Sources: Linux `arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h` (aarch64), `linux/futex.h`;
glibc `sysdeps/nptl/bits/struct_mutex.h`, `struct_rwlock.h`, the same on both machines.
"""

from __future__ import annotations

import os
from typing import Dict

from ..model.syscalls import NUMBERS

MACHINE = os.uname().machine
NUMBER: Dict[str, int] = NUMBERS.get(MACHINE, {})  # name -> number here; empty on a machine we have no table for
NAME: Dict[int, str] = {number: name for name, number in NUMBER.items()}

# futex(2) operations, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI2 = 0, 6, 9, 13
FUTEX_PRIVATE, FUTEX_REALTIME, FUTEX_COMMAND = 0x80, 0x100, 0x7F
FUTEX_TID = 0x3FFFFFFF  # the rest of the word are flags

CLOCK_REALTIME, CLOCK_MONOTONIC, TIMER_ABSTIME = 0, 1, 1

# pthread_mutex_t, from its futex word: where the owner, the number of users and the kind are
MUTEX_OWNER, MUTEX_USERS, MUTEX_KIND = 8, 12, 16
MUTEX_ROBUST, MUTEX_PI = 0x10, 0x20
MUTEX_KNOWN_BITS = 0x3B3  # type, robust, PI, shared 0x80, elision 0x100 and 0x200
# pthread_rwlock_t: readers wait on +8, writers on +12; its writer is at +24; the low bits of +0 say "held by a writer"
RWLOCK_READERS_WAIT, RWLOCK_WRITERS_WAIT, RWLOCK_OWNER, RWLOCK_HELD_BY_WRITER = 8, 12, 24, 0x2
# pthread_cond_t: waiters sleep on one of two words; the word before them counts waiters from bit 3
COND_SIGNALS, COND_WAITERS = (40, 44), 36
