"""The YAML that comes with hangdoc, and its pack: what the YAML says, parsed once when hangdoc is installed.

To parse 200 files takes longer than all else that a short command does. The pack in a wheel stands for its files; the one
in a clone names the size and the time of the last change of each file, and where they differ the files themselves are read.
What ships is trusted: that it is well made is what tests say. Needs msgspec and PyYAML alone, for it runs while hangdoc
is installed (tools/prepare.py).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from . import yamls

_HERE = Path(__file__).parent
PACK = _HERE / "shipped.pack"
_FOR_TESTS = frozenset({"examples"})  # of causes: a quarter of what they say, and no look at a launch asks for it
_IN_WHEEL = _HERE / "baselines" / "shipped"
FOLDERS = {
    "engines": _HERE / "engines" / "data",
    "causes": _HERE / "rules" / "catalogue",
    "baselines": _IN_WHEEL if _IN_WHEEL.is_dir() else _HERE.parents[1] / "baselines",
}


class _File(msgspec.Struct, array_like=True):
    size: int
    changed: int  # nanoseconds
    says: bytes  # what its YAML says, as msgpack


class _Pack(msgspec.Struct):
    sealed: bool  # it stands for its files, whatever they look like
    parts: dict[str, dict[str, _File]]


@functools.cache
def documents(part: str) -> dict[str, bytes]:
    """What each file of a part says, as msgpack, by its path below the folder of that part; causes without their examples."""
    pack = _pack()
    known = pack.parts.get(part) if pack is not None else None
    if pack is None or known is None or not (pack.sealed or _same(known, FOLDERS[part])):
        known = _parsed(FOLDERS[part])
    return {name: one.says for name, one in known.items()}


def packed(*, sealed: bool) -> bytes:
    """The pack of all that ships."""
    return msgspec.msgpack.encode(_Pack(sealed, {part: _parsed(folder) for part, folder in FOLDERS.items()}))


@functools.cache
def _pack() -> _Pack | None:
    try:
        return msgspec.msgpack.decode(PACK.read_bytes(), type=_Pack)
    except (OSError, msgspec.DecodeError):  # not made, or by another hangdoc
        return None


def _parsed(folder: Path) -> dict[str, _File]:
    return {
        name: _File(stat.st_size, stat.st_mtime_ns, _said(Path(path)))
        for name, path, stat in sorted(_files(str(folder), ""))
    }


def _said(path: Path) -> bytes:
    plain = yamls.load(path.read_bytes())
    return msgspec.msgpack.encode({name: one for name, one in plain.items() if name not in _FOR_TESTS})


def _same(known: dict[str, _File], folder: Path) -> bool:
    found = {name: (stat.st_size, stat.st_mtime_ns) for name, _, stat in _files(str(folder), "")}
    return found == {name: (one.size, one.changed) for name, one in known.items()}


def _files(folder: str, below: str) -> Iterator[tuple[str, str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for one in entries:
            if one.is_dir():
                yield from _files(one.path, f"{below}{one.name}/")
            elif one.name.endswith(".yaml") and not one.name.startswith(".") and one.is_file():  # no lock of an editor
                yield below + one.name, one.path, one.stat()
