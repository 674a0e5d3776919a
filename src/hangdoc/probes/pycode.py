"""Which `with` blocks a running Python frame is inside of, from its code object's exception table. Pure.

From 3.11 on every instruction that an exception can leave by names its handler in a table, with the depth of the value
stack that the handler wants. The handler of a `with` begins with PUSH_EXC_INFO, WITH_EXCEPT_START, and the last item
below that depth is the context manager's bound `__exit__`. So the table says exactly which slots of the value stack
hold the exits of the `with` blocks that were entered and not left: a lock that is still waited for is not among them.
Form of the table: CPython `Objects/exception_handling_notes.txt`.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Set, Tuple

_NESTED = 64  # handlers around one instruction that are followed


class Entry(NamedTuple):
    """One row: instructions `start` up to `end` (code units) go to `target` with `depth` items on the stack."""

    start: int
    end: int
    target: int
    depth: int


def table(raw: bytes) -> List[Entry]:
    """The rows of an exception table; a torn one ends early."""
    rows = []
    place = 0

    def number() -> int:
        nonlocal place
        byte = raw[place]
        value = byte & 63
        while byte & 64:
            place += 1
            byte = raw[place]
            value = value << 6 | byte & 63
        place += 1
        return value

    try:
        while place < len(raw):
            start, length, target, depth = number(), number(), number(), number()
            rows.append(Entry(start, start + length, target, depth >> 1))
    except IndexError:
        pass
    return rows


def with_slots(rows: List[Entry], instruction: int, is_with: Callable[[int], bool]) -> Tuple[int, ...]:
    """Value stack slots with the exits of the `with` blocks around an instruction, innermost first.

    `is_with` says whether the handler at an offset is that of a `with`.
    """
    slots: List[int] = []
    seen: Set[int] = set()
    at = instruction
    while len(seen) < _NESTED:
        seen.add(at)
        row = next((one for one in rows if one.start <= at < one.end), None)
        if row is None or row.target in seen:
            break
        if row.depth > 0 and is_with(row.target):
            slots.append(row.depth - 1)
        at = row.target
    return tuple(slots)
