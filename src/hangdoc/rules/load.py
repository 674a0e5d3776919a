"""The catalogue from YAML: the shipped one, the user's own, and folders that were named. The one place here that reads files.

Files are read as if somebody hostile had written them: bounded in size, depth and nodes; no aliases, no tags.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec
import yaml

from .form import BadCause, KnownCause, validate

SIZE = 128 << 10  # bytes of one file
FILES = 2000
_NODES, _DEPTH = 5000, 24
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HERE = Path(__file__).parent
_PACKED = "catalogue.json"  # made when the wheel is built, for YAML of the whole catalogue takes too long to read


@dataclass(frozen=True)
class Catalogue:
    """All causes that are known, by id."""

    causes: tuple[KnownCause, ...]

    def __post_init__(self) -> None:
        """Raise BadCause when two bear one id, when one explains what there is not, or when they explain in a circle."""
        by_id: dict[str, KnownCause] = {}
        for one in self.causes:
            if one.id in by_id:
                raise BadCause(one.id, "two causes bear this id")
            by_id[one.id] = one
        _circle(by_id)

    @functools.cached_property
    def patterns(self) -> tuple[str, ...]:
        """What they ask of logs, each once."""
        return tuple(dict.fromkeys(text for one in self.causes for text in one.patterns()))


def _circle(by_id: dict[str, KnownCause]) -> None:
    for one in by_id.values():
        for name in one.explains:
            if name not in by_id:
                raise BadCause(one.id, f"explains {name!r}, and there is no such cause")
    try:
        TopologicalSorter({name: one.explains for name, one in by_id.items()}).prepare()
    except CycleError as error:
        raise BadCause(error.args[1][0], f"causes that explain each other: {' -> '.join(error.args[1])}") from None


def parse(text: str, where: str) -> KnownCause:
    """One cause from one YAML document. Raises BadCause with `where` and what is wrong."""
    _bounded(text, where)
    try:
        plain = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, by name
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadCause(where, f"no YAML: {_one_line(error)}") from None
    if not isinstance(plain, dict):
        raise BadCause(where, "not a mapping")
    try:
        found = msgspec.convert(plain, KnownCause, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadCause(where, _one_line(error)) from None
    validate(found, where)
    return found


def read(path: Path) -> KnownCause:
    """One cause from its file, which bears its id. Raises BadCause."""
    try:
        if not path.is_file():
            raise BadCause(str(path), "is no file" if path.exists() else "there is no such file")
        with path.open("rb") as file:
            data = file.read(SIZE + 1)
    except OSError as error:
        raise BadCause(str(path), f"cannot be read: {error.strerror}") from None
    if len(data) > SIZE:
        raise BadCause(str(path), f"larger than {SIZE >> 10} KiB")
    try:
        found = parse(data.decode(), str(path))
    except UnicodeDecodeError:
        raise BadCause(str(path), "not text in UTF-8") from None
    if path.stem != found.id:
        raise BadCause(str(path), f"its id is {found.id}: a file bears the id of its cause")
    return found


def files(folder: Path) -> list[Path]:
    """All files of causes below a folder, in order. Raises BadCause when they are too many."""
    found = sorted(folder.rglob("*.yaml"))
    if len(found) > FILES:
        raise BadCause(str(folder), f"more than {FILES} files")
    return found


def user_folder() -> Path:
    """Where the user's own causes are."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "hangdoc" / "causes"


def shipped_folder() -> Path:
    """Where the causes that come with hangdoc are."""
    return _HERE / "catalogue"


def unpack(data: bytes) -> tuple[KnownCause, ...]:
    """Causes that were packed when the wheel was built (tools/pack_catalogue.py): read in milliseconds, checked before."""
    return msgspec.json.decode(data, type=tuple[KnownCause, ...])


@functools.cache
def shipped() -> tuple[KnownCause, ...]:
    """The causes that come with hangdoc: packed in a wheel, as files in a clone. That they are well made is what tests say."""
    packed = _HERE / _PACKED
    if packed.is_file():
        return unpack(packed.read_bytes())
    plain = [yaml.load(path.read_bytes(), Loader=_Loader) for path in files(shipped_folder())]  # noqa: S506 - a safe one
    return msgspec.convert(plain, tuple[KnownCause, ...])


def catalogue(folders: Sequence[Path] = ()) -> Catalogue:
    """The shipped causes, the user's own and those of `folders`. Raises BadCause for the first that is not well made."""
    return Catalogue((*shipped(), *(read(path) for folder in folders for path in files(folder))))


def with_own(folders: Sequence[Path] = ()) -> tuple[Catalogue, list[str]]:
    """The same with the user's own causes, and what is wrong with those that had to be left out."""
    known, problems = catalogue(folders), []
    own = user_folder()
    for path in files(own) if own.is_dir() else ():
        try:
            known = Catalogue((*known.causes, read(path)))
        except BadCause as error:
            problems.append(str(error))
    return known, problems


def _bounded(text: str, where: str) -> None:
    """Refuse what grows when it is loaded, what could make objects, and a key that is there twice."""
    open_: list[_Open] = []
    nodes = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):
            nodes += 1
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise BadCause(where, "uses YAML anchors, which a cause never does")
            tag = getattr(event, "tag", None)
            if tag not in (None, "!"):
                raise BadCause(where, f"uses the YAML tag {tag[:60]}, which a cause never does")
            if len(open_) > _DEPTH or nodes > _NODES:
                raise BadCause(where, f"nested deeper than {_DEPTH}, or more than {_NODES} nodes")
            _open(open_, event, where)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadCause(where, f"no YAML: {_one_line(error)}") from None


@dataclass
class _Open:
    """A mapping or a list that is not closed yet."""

    mapping: bool
    keys: set[str] = field(default_factory=set)
    at: int = 0


def _open(open_: list[_Open], event: Any, where: str) -> None:
    """Follow one event, and raise BadCause for a key that its mapping has already."""
    if isinstance(event, yaml.CollectionEndEvent):
        open_.pop()
    elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
        if open_:
            top = open_[-1]
            key = top.mapping and top.at % 2 == 0
            top.at += 1
            if key and isinstance(event, yaml.ScalarEvent):
                if event.value in top.keys:
                    raise BadCause(where, f"the key {event.value[:60]!r} is there twice")
                top.keys.add(event.value)
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(_Open(isinstance(event, yaml.MappingStartEvent)))


def _one_line(error: Any) -> str:
    return " ".join(str(error).split())[:300]
