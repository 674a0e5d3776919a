"""CPython's own threads and frames in a target's memory: without symbols, without files, without a tool.

A thread that is blocked below Python keeps a pointer to its PyThreadState on its stack. That one is found by what it
must hold: the thread's own number beside its pthread_t, in an object that only it can be. From there a list leads to
all others, and each leads to its frames. Every pointer is followed only into pages that are there already
(`Memory.follow`), and whatever does not fit ends the walk: nothing found is nothing claimed.
"""

from __future__ import annotations

import re
import struct
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..model.sample import Thread
from . import pycode
from . import pylayouts as py
from . import syscalls as sc
from .memory import Memory
from .procfs import PAGE

# A program or library of CPython among the mapped files; the free-threaded build (python3.13t) is another thing.
_PROGRAM = re.compile(rb"/(?:lib)?python3\.(\d+)(?:\.so[\d.]*)?(?: \(deleted\))?\n")
_STACK = 8192  # bytes above the stack pointer in which the thread state is looked for
_TRIES = 16  # threads whose stacks are looked at
_THREADS, _FRAMES = 4096, 512  # thread states of a process; frames of a thread
_TABLE, _SLOTS = 1 << 14, 1 << 12  # bytes of one exception table; value stack and locals of one frame


def minor_version(maps: bytes) -> Optional[int]:
    """The 13 of Python 3.13, from the names of mapped files; None when it is no Python or two of them."""
    found = {int(one) for one in _PROGRAM.findall(maps)}
    return found.pop() if len(found) == 1 else None


class State(NamedTuple):
    """A PyThreadState: its address, the thread's number as the target knows it, its pthread_t."""

    address: int
    number: int
    pthread: int
    raw: bytes


class Code(NamedTuple):
    """What is used of a code object."""

    locals: int
    depth: int
    rows: List[pycode.Entry]


class Frame(NamedTuple):
    """A running frame."""

    address: int
    code: int
    instruction: int


def word(raw: bytes, offset: int) -> int:
    """The 64-bit word at an offset."""
    value: int = struct.unpack_from("=Q", raw, offset)[0]
    return value


def thread_number(memory: Memory, pthread: int, number: int, tids: Dict[int, int]) -> Optional[int]:
    """The number of a thread, as the target knows it, from what its PyThreadState says; None when it is none of `tids`.

    3.10 and older keep no number: then glibc's own is taken, as it is where a number is no longer right.
    """
    if not pthread or pthread % 64:  # where glibc puts a struct pthread
        return None
    if number in tids:
        return number
    offset = py.PTHREAD_TID.get(sc.MACHINE)
    raw = memory.follow(pthread + offset, 4) if offset is not None else None
    found = struct.unpack("=I", raw)[0] if raw else 0
    return found if found in tids else None


class Interpreter:
    """Threads and frames of one Python process. `tids` are the numbers of its threads as the target knows them."""

    def __init__(self, memory: Memory, layout: py.Layout, tids: Dict[int, int]) -> None:
        self.memory = memory
        self.layout = layout
        self.tids = tids
        self.codes: Dict[int, Optional[Code]] = {}
        self.slots: Dict[Tuple[int, int], Tuple[int, ...]] = {}
        self.code_type: Optional[int] = None

    def pointer(self, address: int) -> Optional[int]:
        """The pointer at an address."""
        raw = self.memory.follow(address, 8)
        return None if raw is None else word(raw, 0)

    def state_at(self, address: int) -> Optional[State]:
        """The thread state at an address, when there is one."""
        raw = self.memory.follow(address, py.STATE_SIZE)
        if raw is None:
            return None
        pthread = word(raw, self.layout.thread)
        number = thread_number(self.memory, pthread, word(raw, self.layout.number), self.tids)
        return State(address, number, pthread, raw) if number and word(raw, py.STATE_INTERPRETER) else None

    def states(self, threads: List[Thread]) -> Dict[int, State]:
        """All thread states by the thread's number, found from the stacks of blocked threads; empty when none is."""
        for thread in threads[:_TRIES]:
            first = self._on_stack(thread)
            if first is not None:
                return {one.number: one for one in self._linked(first)}
        return {}

    def _on_stack(self, thread: Thread) -> Optional[State]:
        if not thread.sp:
            return None
        number = thread.nstid if thread.nstid is not None else thread.tid
        low = thread.sp & ~7
        raw = self.memory.read(low, min(_STACK, self.memory.room(low) & ~7))
        seen = set()
        for (value,) in struct.iter_unpack("=Q", raw or b""):
            if value in seen or value % 8 or self.memory.kind(value, py.STATE_SIZE) is None:
                continue
            seen.add(value)
            found = self.state_at(value)
            # Its neighbours in the list point back at it: a copy or a remnant has none that do.
            if found is not None and found.number == number and self._is_linked(found):
                return found
        return None

    def _is_linked(self, state: State) -> bool:
        previous, following = word(state.raw, 0), word(state.raw, py.STATE_NEXT)
        ahead = self.pointer(following) if following else state.address
        behind = self.pointer(previous + py.STATE_NEXT) if previous else state.address
        return ahead == behind == state.address and bool(previous or following or len(self.tids) >= 1)

    def _linked(self, state: State) -> Iterator[State]:
        yield state
        interpreter = word(state.raw, py.STATE_INTERPRETER)
        for offset in (0, py.STATE_NEXT):  # to both ends of the list
            at: Optional[State] = state
            for _ in range(_THREADS):
                at = self.state_at(word(at.raw, offset)) if at is not None else None
                if at is None or word(at.raw, py.STATE_INTERPRETER) != interpreter:
                    break
                yield at

    def frames(self, state: State) -> Iterator[Frame]:
        """Frames of a thread, innermost first, as far as they can be followed."""
        layout = self.layout
        address: Optional[int] = state.address
        for offset in layout.frame:
            address = self.pointer(address + offset) if address else None
        page, start = b"", 0  # frames lie one behind the other: a page of them is read at once
        for _ in range(_FRAMES):
            if not address or address % 8:
                return
            place = address - start
            if not 0 <= place <= len(page) - py.LOCALS:
                start = address & ~(PAGE - 1)
                page = self.memory.follow(start, PAGE) or b""
                place = address - start
                if place > len(page) - py.LOCALS:  # at the edge of a page, or of its area
                    page, start, place = self.memory.follow(address, py.LOCALS) or b"", address, 0
                    if not page:
                        return
            yield Frame(address, word(page, place + layout.code), word(page, place + py.INSTRUCTION))
            address = word(page, place + layout.previous)

    def code(self, address: int) -> Optional[Code]:
        """The code object at an address; None when there is none that can be read whole."""
        if address not in self.codes:
            self.codes[address] = self._code(address)
        return self.codes[address]

    def _code(self, address: int) -> Optional[Code]:
        layout = self.layout
        raw = self.memory.follow(address, 80)
        if raw is None or not self._is_code_type(word(raw, py.TYPE)):
            return None
        depth, count = (struct.unpack_from("=i", raw, offset)[0] for offset in (layout.depth, layout.locals))
        head = self.memory.follow(word(raw, layout.table), py.BYTES)
        size = 0 if head is None else word(head, py.SIZE)
        if not (0 <= depth < _SLOTS and 0 <= count < _SLOTS) or head is None or size > _TABLE:
            return None
        rows = self._bytes(word(raw, layout.table) + py.BYTES, size)
        return None if rows is None else Code(count, depth, pycode.table(rows))

    def _bytes(self, address: int, size: int) -> Optional[bytes]:
        """Bytes that may run over several pages."""
        parts = []
        for start in range(0, size, 4096):
            part = self.memory.follow(address + start, min(4096, size - start))
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _is_code_type(self, address: int) -> bool:
        if self.code_type is None and self.is_type(address):
            self.code_type = address
        return address == self.code_type

    def is_type(self, address: int) -> bool:
        """Whether a type object is there: the type of its type is a type whose type is itself."""
        meta = self.pointer(address + py.TYPE)
        return bool(meta) and meta is not None and self.pointer(meta + py.TYPE) == meta

    def exits(self, frame: Frame) -> Tuple[int, ...]:
        """Addresses of the slots that hold the exits of the `with` blocks that the frame is inside of."""
        code = self.code(frame.code)
        first = frame.code + self.layout.bytecode
        if code is None or not code.rows or not first <= frame.instruction < first + (1 << 24):
            return ()
        key = (frame.code, frame.instruction)
        if key not in self.slots:

            def is_with(target: int) -> bool:
                at = first + 2 * target
                raw = self.memory.follow(at & ~7, 16)
                place = at & 7
                return raw is not None and (raw[place], raw[place + 2]) == self.layout.with_handler

            self.slots[key] = pycode.with_slots(code.rows, (frame.instruction - first) // 2, is_with)
        return tuple(frame.address + py.LOCALS + 8 * (code.locals + one) for one in self.slots[key] if one < code.depth)

    def values(self, frame: Frame) -> List[int]:
        """Everything in the locals and the value stack of a frame, also in slots that are no longer in use."""
        code = self.code(frame.code)
        size = 0 if code is None else 8 * (code.locals + code.depth)
        raw = self._bytes(frame.address + py.LOCALS, size)
        return [value for (value,) in struct.iter_unpack("=Q", raw or b"")]
