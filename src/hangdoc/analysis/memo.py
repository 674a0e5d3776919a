"""A result that is kept as long as it would come out the same: a watch judges each second, and most of what it saw stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The last result, good while it would be made of the very same objects, or by `same` of such that agree. What was sampled is
    never changed."""

    def __init__(self, same: Callable[[Sequence[object], Sequence[object]], bool] | None = None) -> None:
        self._same = same or _same_objects
        self._of: tuple[object, ...] | None = None
        self._result: T | None = None

    def get(self, of: Sequence[object], make: Callable[[], T]) -> T:
        """The result for `of`."""
        if self._of is None or not self._same(of, self._of) or self._result is None:
            self._of, self._result = tuple(of), make()
        return self._result


def _same_objects(of: Sequence[object], before: Sequence[object]) -> bool:
    """Numbers are compared by value, all else by identity."""
    pairs = zip(of, before, strict=False)
    return len(of) == len(before) and all(a is b or (type(a) is type(b) is int and a == b) for a, b in pairs)
