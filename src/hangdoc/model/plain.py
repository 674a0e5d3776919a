"""Dataclasses to plain JSON values, for the agent, which has no msgspec.

Defaults are left out: the reader fills them in again, and an absent value can never be mistaken for one that is
deleted in a difference (RFC 7396 writes deletions as null). Standard library only and Python 3.8.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Dict

_DEFAULTS: Dict[type, Dict[str, Any]] = {}  # of the fields of each dataclass that was seen
_NOTHING = object()
_AS_IT_IS = frozenset((int, float, bool, type(None)))


def _defaults(kind: type) -> Dict[str, Any]:
    """The default of each field of a dataclass."""
    known: Dict[str, Any] = {}
    for one in fields(kind):
        default = one.default
        if default is MISSING:
            default = _NOTHING if one.default_factory is MISSING else one.default_factory()
        known[one.name] = default
    return known


def to_plain(value: Any) -> Any:
    """Return `value` as dicts with string keys, lists, strings, numbers and booleans, defaults left out.

    A name that is not UTF-8 (os.listdir gives such bytes as lone surrogates) becomes `\\udcNN`, for strict readers of
    JSON refuse the whole document otherwise.
    """
    kind = type(value)
    known = _DEFAULTS.get(kind)
    if known is not None:
        plain = {}
        for name, one in value.__dict__.items():  # a field that is not there has its default
            default = known[name]
            if one is not default and one != default:
                plain[name] = one if type(one) in _AS_IT_IS else to_plain(one)
        return plain
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {to_plain(str(key)): one if type(one) in _AS_IT_IS else to_plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [one if type(one) in _AS_IT_IS else to_plain(one) for one in value]
    if value is None or isinstance(value, (int, float)):
        return value
    if is_dataclass(value):
        _DEFAULTS[kind] = _defaults(kind)
        return to_plain(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
