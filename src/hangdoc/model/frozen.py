"""Dataclasses that take a tenth of the time to define: `from .frozen import dataclass` in place of the standard one.

The standard decorator compiles six functions for each class, 0.5 ms, whether they are called or not, and 80 classes are
defined at every start. Here those that can be the same for every class are shared, and `__init__` is compiled when the
first object is made: most of what is decoded from JSON never needs it. In all else they are dataclasses: `fields`,
equality, hashes; `replace` is here.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

__all__ = ["dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """As `dataclasses.dataclass`, without order."""
        return _frozen if frozen else _made

    def replace(one: Any, /, **changes: Any) -> Any:
        """As `dataclasses.replace`, without calling the class: that takes 20 us, and a thousand hosts have millions. That the
        fields are there is what mypy says."""
        new = object.__new__(type(one))
        new.__dict__.update(one.__dict__)
        new.__dict__.update(changes)
        return new


_ABSENT = object()


def _made(kind: Any) -> Any:
    dataclasses.dataclass(init=False, repr=False, eq=False)(kind)
    kind.__repr__, kind.__eq__, kind.__hash__ = _repr, _eq, None
    kind.__init__ = _Init(kind)
    return kind


def _frozen(kind: Any) -> Any:
    made = _made(kind)
    made.__hash__, made.__setattr__, made.__delattr__ = _hash, _refuse, _refuse
    return made


_GETTERS: Dict[type, Callable[[Any], Any]] = {}


def _values(one: Any) -> Any:
    kind: Any = type(one)
    getter = _GETTERS.get(kind)
    if getter is None:
        names = [each.name for each in dataclasses.fields(kind)]
        getter = _GETTERS[kind] = attrgetter(*names) if names else lambda _: None
    return getter(one)


def _repr(self: Any) -> str:
    told = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({told})"


def _eq(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    same: bool = _values(self) == _values(other)
    return same


def _hash(self: Any) -> int:
    return hash(_values(self))


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r} of {type(self).__qualname__}")


class _Init:
    """Stands for the `__init__` of a class until somebody asks for it."""

    def __init__(self, kind: type) -> None:
        self.kind: Any = kind

    def __get__(self, one: Optional[Any], kind: Optional[type] = None) -> Any:
        made = _init(self.kind)
        self.kind.__init__ = made
        return made if one is None else made.__get__(one)


def _init(kind: Any) -> Any:
    """The function that the standard decorator would have made."""
    known: Dict[str, Any] = {"_ABSENT": _ABSENT, "_set": object.__setattr__}
    head: List[str] = []
    body: List[str] = []
    for one in dataclasses.fields(kind):
        value = one.name
        if one.default is not dataclasses.MISSING:
            known[f"_of_{one.name}"] = one.default
            head.append(f"{one.name}=_of_{one.name}")
        elif one.default_factory is not dataclasses.MISSING:
            known[f"_of_{one.name}"] = one.default_factory
            head.append(f"{one.name}=_ABSENT")
            value = f"_of_{one.name}() if {one.name} is _ABSENT else {one.name}"
        else:
            head.append(one.name)
        body.append(f" _set(self, {one.name!r}, {value})")
    lines = [f"def __init__(self, {', '.join(head)}):", *(body or [" pass"])]
    exec("\n".join(lines), known)  # noqa: S102 - names of fields, as the standard one does it
    made = known["__init__"]
    made.__annotations__ = {one.name: one.type for one in dataclasses.fields(kind)}
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__module__ = kind.__module__
    return made
