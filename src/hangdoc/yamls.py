"""YAML as text: files of others are read as if somebody hostile had written them.

PyYAML is imported when the first text is read or written: an ordinary look reads none, for what ships is packed (shipped.py).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from types import ModuleType


class Refused(ValueError):
    """A text that is not read; the message says why."""


class Row(dict[str, Any]):
    """A mapping that is written on one line."""


@functools.cache
def _yaml() -> ModuleType:
    import yaml  # noqa: PLC0415 - 10 ms, and seldom needed

    return yaml


def _loader() -> Any:
    return getattr(_yaml(), "CSafeLoader", _yaml().SafeLoader)


def load(text: str | bytes) -> Any:
    """What a text of our own says."""
    return _yaml().load(text, Loader=_loader())  # a safe loader, by name


def read(text: str, nodes: int, depth: int) -> Any:
    """What a text of others says. Refused when it is no YAML, grows as it is loaded, could make objects, or says a key twice."""
    yaml = _yaml()
    try:
        _bounded(text, nodes, depth)
        return load(text)
    except Refused:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Refused(f"no YAML: {one_line(error)}") from None


def dump(value: Any) -> str:
    """The value as YAML, keys in their order, each Row on one line."""
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - its base class names it
            return True

    Dumper.add_representer(
        Row, lambda dumper, row: dumper.represent_mapping("tag:yaml.org,2002:map", row, flow_style=True)
    )
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)
    return text


def one_line(error: Exception) -> str:
    """What an error says, short enough for a message."""
    return " ".join(str(error).split())[:300]


class _Open(msgspec.Struct):
    """A mapping or a list that is not closed yet."""

    mapping: bool
    keys: set[str] = set()
    at: int = 0


def _bounded(text: str, most: int, depth: int) -> None:
    yaml = _yaml()
    open_: list[_Open] = []
    for nodes, event in enumerate(yaml.parse(text, Loader=_loader())):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise Refused("uses YAML anchors, which are not read here")
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise Refused(f"uses the YAML tag {tag[:60]}, and tags are not read here")
        if len(open_) > depth or nodes >= most:
            raise Refused(f"nested deeper than {depth}, or more than {most} nodes")
        if isinstance(event, yaml.CollectionEndEvent):
            open_.pop()
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            _place(open_, event.value if isinstance(event, yaml.ScalarEvent) else None)
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append(_Open(isinstance(event, yaml.MappingStartEvent)))


def _place(open_: list[_Open], scalar: str | None) -> None:
    """Put one node into the innermost collection. Refused for a key that its mapping has already."""
    if not open_:
        return
    top = open_[-1]
    key = top.mapping and top.at % 2 == 0
    top.at += 1
    if key and scalar is not None:
        if scalar in top.keys:
            raise Refused(f"the key {scalar[:60]!r} is there twice")
        top.keys.add(scalar)
