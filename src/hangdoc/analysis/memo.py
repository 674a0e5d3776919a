"""A result that is kept as long as it would come out the same: a watch judges each second, and most of what it saw stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The last result, good while it would be made of the very same objects. What was sampled is never changed."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] | None = None
        self._result: T | None = None

    def get(self, of: Sequence[object], make: Callable[[], T]) -> T:
        """The result for `of`; numbers are compared by value, all else by identity."""
        same = self._of is not None and len(of) == len(self._of)
        same = same and all(
            a is b or (type(a) is type(b) is int and a == b) for a, b in zip(of, self._of or (), strict=True)
        )
        if not same or self._result is None:
            self._of, self._result = tuple(of), make()
        return self._result
