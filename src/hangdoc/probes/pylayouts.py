"""Where CPython 3.11 to 3.13 keeps threads, frames and locks: offsets in bytes on a 64-bit machine. Data only.

Sources: CPython `Include/cpython/pystate.h`, `Include/internal/pycore_frame.h`, `Include/cpython/code.h`,
`Include/cpython/methodobject.h`, `Modules/_threadmodule.c`, `Python/ceval_gil.c`; checked with offsetof on 3.11.7, 3.12.1
and 3.13.0. The same on x86-64 and aarch64. Free-threaded builds and 3.14 lock in another way and are not here.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from ..model.frozen import dataclass

# PyObject, PyTypeObject, PyCFunctionObject, lockobject, rlockobject, PyBytesObject, _PyInterpreterFrame: all versions
TYPE, TYPE_NAME, SELF, LOCK, RLOCK_OWNER, RLOCK_COUNT, SIZE, BYTES = 8, 24, 24, 16, 24, 32, 16, 32
STACKTOP, LOCALS, INSTRUCTION = 64, 72, 56
STATE_NEXT, STATE_INTERPRETER, STATE_SIZE = 8, 16, 168
LOCK_TYPES = {b"_thread.lock": "python-lock", b"_thread.RLock": "python-rlock"}

# struct _gil_runtime_state, 3.8 to 3.13: interval, last_holder, locked; its condition variable's futex words follow
GIL_SIZE, GIL_WAITERS = 20, 0x48
# glibc's struct pthread, nptl/descr.h: the thread's number
PTHREAD_TID = {"x86_64": 0x2D0, "aarch64": 0xD0}


@dataclass(frozen=True)
class Layout:
    """One minor version."""

    thread: int  # PyThreadState: pthread_t; the thread's number is in the word after it
    frame: Tuple[int, ...]  # PyThreadState -> its running frame: one offset, or two with a pointer between
    code: int  # _PyInterpreterFrame
    previous: int
    depth: int  # PyCodeObject: co_stacksize
    locals: int  # co_nlocalsplus
    table: int  # co_exceptiontable
    bytecode: int  # co_code_adaptive
    # PUSH_EXC_INFO, WITH_EXCEPT_START: how the handler of a `with` begins
    with_handler: Tuple[int, int]

    @property
    def number(self) -> int:
        """PyThreadState: the kernel's number of the thread."""
        return self.thread + 8


LAYOUTS: Dict[int, Layout] = {
    11: Layout(152, (56, 8), 32, 48, 68, 76, 40, 184, (35, 49)),
    12: Layout(136, (56, 0), 0, 8, 64, 72, 40, 192, (35, 49)),
    13: Layout(152, (72,), 0, 8, 64, 72, 40, 200, (33, 44)),
}


def layout_of(minor: Optional[int]) -> Optional[Layout]:
    """The layout of Python 3.`minor`, None when it is not known."""
    return None if minor is None else LAYOUTS.get(minor)
