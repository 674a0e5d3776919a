"""Dataclasses to plain JSON values, for the agent, which has no msgspec.

Defaults are left out: the reader fills them in again, and an absent value can never be mistaken for one that is
deleted in a difference (RFC 7396 writes deletions as null). Standard library only and Python 3.8.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Dict, List, Tuple

_FIELDS: Dict[type, List[Tuple[str, Any]]] = {}
_NOTHING = object()


def _fields(kind: type) -> List[Tuple[str, Any]]:
    known = _FIELDS.get(kind)
    if known is None:
        known = []
        for one in fields(kind):
            default = one.default
            if default is MISSING:
                default = _NOTHING if one.default_factory is MISSING else one.default_factory()
            known.append((one.name, default))
        _FIELDS[kind] = known
    return known


def to_plain(value: Any) -> Any:
    """Return `value` as dicts with string keys, lists, strings, numbers and booleans, defaults left out.

    A name that is not UTF-8 (os.listdir gives such bytes as lone surrogates) becomes `\\udcNN`, for strict readers of
    JSON refuse the whole document otherwise.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, dict):
        return {to_plain(str(key)): to_plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(one) for one in value]
    if is_dataclass(value):
        pairs = ((name, getattr(value, name), default) for name, default in _fields(type(value)))
        return {name: to_plain(one) for name, one, default in pairs if one != default}
    raise TypeError(f"{type(value).__name__} has no JSON form")
