"""Who holds a Python lock that was taken by `with`, and who holds the GIL.

A lock does not know its holder. But the frame that is inside of `with lock:` keeps the bound `__exit__`, a C function
whose `m_self` is the lock, in a slot that its exception table names exactly (`pycode`). An RLock has its owner beside.
Nothing is claimed for `acquire()` without `with`, nor for what is built of locks: Condition, Event, Queue, Semaphore.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

from ..model.frozen import replace
from ..model.sample import FutexWait, Thread
from . import pylayouts as py
from .memory import Memory
from .pythreads import Frame, Interpreter, State, minor_version, word

_FRAMES = 20_000  # frames of all threads that are looked at in one process
_LOCK_SIZE = 40


class Lock(NamedTuple):
    """A lock object: where it is, what it is, the address that its waiters wait on."""

    address: int
    kind: str
    waited: int
    owner: int  # RLock: pthread_t, 0 when nobody holds it


class Held(NamedTuple):
    """A frame that is inside of `with` for a lock: the thread's number in the target, the slot that says so."""

    number: int
    frame: Frame
    slot: int
    lock: Lock


def could_be_lock(thread: Thread) -> bool:
    """Whether a wait may be one for a Python lock, which is a sem_t: its word is 0."""
    futex = thread.futex
    return futex is not None and futex.word == 0 and futex.kind in ("semaphore", "unknown") and not futex.shared


def owners(memory: Memory, threads: Dict[int, Thread], tids: Dict[int, int]) -> Dict[int, FutexWait]:
    """What those of `threads` that wait for a Python lock wait for, by tid. `tids` map the target's numbers to ours."""
    layout = py.layout_of(minor_version(memory.maps))
    waiting = [one for one in threads.values() if could_be_lock(one)]
    if layout is None or not waiting:
        return {}
    python = Interpreter(memory, layout, tids)
    states = python.states(waiting)
    return _Search(python, states, waiting).found() if states else {}


class _Search:
    def __init__(self, python: Interpreter, states: Dict[int, State], waiting: List[Thread]) -> None:
        self.python = python
        self.states = states
        self.waiting = waiting
        self.wanted = {one.futex.address for one in waiting if one.futex is not None}
        self.kinds: Dict[int, Optional[str]] = {}  # type object -> kind of lock
        self.locks: Dict[int, Lock] = {}  # waited address -> lock

    def found(self) -> Dict[int, FutexWait]:
        held = self.held()
        by_pthread = {one.pthread: one.number for one in self.states.values()}
        found = {}
        for thread in self.waiting:
            futex = thread.futex
            if futex is None:
                continue
            lock = self.locks.get(futex.address) or self.waited_by(thread)
            if lock is None:
                continue
            number: Optional[int] = None
            if lock.kind == "python-rlock":
                again = self.lock_at(lock.address)
                if again == lock and lock.owner:
                    number = by_pthread.get(lock.owner, 0)
            else:
                numbers = {one.number for one in held.get(futex.address, ()) if self.still(one)}
                number = numbers.pop() if len(numbers) == 1 else None
            owner = self.python.tids.get(number) if number is not None else None
            found[thread.tid] = replace(futex, kind=lock.kind, owner=owner, owner_raw=number)
        return found

    def held(self) -> Dict[int, List[Held]]:
        """Frames that hold one of the wanted locks, by the address that is waited on."""
        found: Dict[int, List[Held]] = {}
        left = _FRAMES
        for state in self.states.values():
            for frame in self.python.frames(state):
                left -= 1
                if left < 0:
                    return found
                for slot in self.python.exits(frame):
                    lock = self.lock_in(slot)
                    if lock is not None and lock.waited in self.wanted:
                        self.locks[lock.waited] = lock
                        found.setdefault(lock.waited, []).append(Held(state.number, frame, slot, lock))
        return found

    def still(self, held: Held) -> bool:
        """Whether a second read says the same."""
        raw = self.python.memory.follow(held.frame.address, py.LOCALS)
        if raw is None:
            return False
        now = Frame(held.frame.address, word(raw, self.python.layout.code), word(raw, py.INSTRUCTION))
        return (
            now.code == held.frame.code and held.slot in self.python.exits(now) and self.lock_in(held.slot) == held.lock
        )

    def lock_in(self, slot: int) -> Optional[Lock]:
        """The lock whose bound method a slot holds."""
        function = self.python.pointer(slot)
        return None if function is None else self.lock_of(function)

    def lock_of(self, function: int) -> Optional[Lock]:
        """The lock that a bound method of C belongs to; one that is referred to, not a remnant."""
        raw = self.python.memory.follow(function, py.SELF + 8)
        if raw is None or not word(raw, 0) or self.kind(word(raw, py.TYPE)) is not None:
            return None
        lock = self.lock_at(word(raw, py.SELF))
        return lock if lock is not None and self.python.is_type(word(raw, py.TYPE)) else None

    def lock_at(self, address: int) -> Optional[Lock]:
        """The lock object at an address."""
        raw = self.python.memory.follow(address, _LOCK_SIZE)
        kind = None if raw is None else self.kind(word(raw, py.TYPE))
        if raw is None or kind is None:
            return None
        held = kind == "python-rlock" and word(raw, py.RLOCK_COUNT) > 0
        return Lock(address, kind, word(raw, py.LOCK), word(raw, py.RLOCK_OWNER) if held else 0)

    def kind(self, type_: int) -> Optional[str]:
        """The kind of lock that a type object stands for, by its name."""
        if type_ not in self.kinds:
            pointer = self.python.pointer(type_ + py.TYPE_NAME) if self.python.is_type(type_) else None
            name = self.python.memory.follow(pointer, 16) if pointer else None
            self.kinds[type_] = py.LOCK_TYPES.get((name or b"").partition(b"\0")[0])
        return self.kinds[type_]

    def waited_by(self, thread: Thread) -> Optional[Lock]:
        """The lock that a thread waits for: its innermost frame has it, or a method bound to it, among its values."""
        state = self.states.get(thread.nstid if thread.nstid is not None else thread.tid)
        frame = next(self.python.frames(state), None) if state is not None else None
        if frame is None or thread.futex is None:
            return None
        for value in dict.fromkeys(self.python.values(frame)):
            lock = self.lock_at(value) or self.lock_of(value)
            if lock is not None and lock.waited == thread.futex.address:
                self.locks[lock.waited] = lock
                return lock
        return None
