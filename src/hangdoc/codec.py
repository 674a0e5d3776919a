"""JSON in and out: strict decoding into the dataclasses of `model` with msgspec.

Unknown fields are tolerated (a newer hangdoc may have written them); a wrong type is an error with its path.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .model.plain import to_plain
from .model.report import Report

T = TypeVar("T")
DecodeError = msgspec.ValidationError

# JSON names that Python reserves, by the class whose field they are.
_RENAMED = {"waits": {"source": "from", "target": "to"}, "progress": {"kind": "class"}}


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode one JSON document. Raises msgspec.DecodeError (bad JSON) or its ValidationError (wrong shape)."""
    return msgspec.json.decode(data, type=kind)


def convert(plain: Any, kind: type[T]) -> T:
    """Turn plain JSON values into `kind`."""
    return msgspec.convert(plain, kind, str_keys=True)


def encode(value: Any) -> bytes:
    """One line of JSON without its end, defaults left out."""
    return msgspec.json.encode(to_plain(value))


def _rename(plain: dict[str, Any], *, back: bool) -> dict[str, Any]:
    for name, public in _RENAMED.items():
        pairs = {new: old for old, new in public.items()} if back else public
        plain[name] = [{pairs.get(key, key): value for key, value in row.items()} for row in plain.get(name, [])]
    return plain


def report_to_plain(report: Report) -> dict[str, Any]:
    """The report as it is printed: every field, under its public name."""
    plain: dict[str, Any] = msgspec.to_builtins(report, str_keys=True)
    return _rename(plain, back=False)


def report_from_plain(plain: dict[str, Any]) -> Report:
    """The opposite of `report_to_plain`."""
    return convert(_rename(dict(plain), back=True), Report)


def report_json(report: Report) -> str:
    """The report as one line of JSON."""
    return msgspec.json.encode(report_to_plain(report)).decode()
