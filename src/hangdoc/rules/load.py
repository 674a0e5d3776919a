"""The catalogue from YAML: the shipped one, the user's own, and folders that were named. The one place here that reads files.

Files are read as if somebody hostile had written them: bounded in size, depth and nodes; no aliases, no tags.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import msgspec

from .. import yamls
from ..shipped import documents
from .form import BadCause, KnownCause, validate

SIZE = 128 << 10  # bytes of one file
FILES = 2000
_NODES, _DEPTH = 5000, 24


class Catalogue(msgspec.Struct, frozen=True, dict=True):
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
    try:
        plain = yamls.read(text, _NODES, _DEPTH)
    except yamls.Refused as error:
        raise BadCause(where, error) from None
    if not isinstance(plain, dict):
        raise BadCause(where, "not a mapping")
    try:
        found = msgspec.convert(plain, KnownCause, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadCause(where, yamls.one_line(error)) from None
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
    """All files of causes below a folder, in order, without hidden ones. Raises BadCause when they are too many."""
    found = sorted(one for one in folder.rglob("*.yaml") if not one.name.startswith("."))
    if len(found) > FILES:
        raise BadCause(str(folder), f"more than {FILES} files")
    return found


def user_folder() -> Path:
    """Where the user's own causes are."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "hangdoc" / "causes"


@functools.cache
def shipped() -> tuple[KnownCause, ...]:
    """The causes that come with hangdoc, without their examples. That they are well made is what tests say."""
    decoder = msgspec.msgpack.Decoder(KnownCause)
    return tuple(decoder.decode(one) for one in documents("causes").values())


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
