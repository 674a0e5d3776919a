"""The case file: a target and its samples in order, append-only JSON lines that replay offline.

The first line is a header with schema and version. Every further line is a record: a whole sample (`sample`), or the
difference to the sample before it of the same host (`patch`, a JSON merge patch, RFC 7396; nulls delete, and no sample
holds a null). Lines and fields that this version does not know are kept where a file is copied, and passed over where
it is read. Half a last line, as a crash or a full disk leaves it, is tolerated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ..codec import convert, decode
from ..model.frozen import dataclass
from ..model.plain import to_plain
from ..model.sample import Sample

CASE_SCHEMA = "hangdoc.case/1"
_FAMILY = "hangdoc.case/"
LINE_LIMIT = 64 << 20  # bytes of one record; a full sample of 64 ranks with 1,000 threads each is about 30 MB


class CaseError(Exception):
    """The file is no case that can be read. The message says what is wrong and in which line."""


@dataclass(frozen=True)
class Header:
    """First line of a case."""

    schema: str
    hangdoc: str  # version that wrote it
    at: float  # wall clock
    root: int  # pid of the launch's root process
    host: str = ""  # of the root process
    hosts: tuple[str, ...] = ()  # all of them, where there are several


def difference(old: Any, new: Any) -> Any:
    """The merge patch that turns `old` into `new`; both are plain JSON values without nulls."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            patch[key] = difference(old[key], value)
    return patch


def patched(old: Any, patch: Any) -> Any:
    """`old` with a merge patch applied (RFC 7396, section 2)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = patched(result.get(key), value)
    return result


class CaseWriter:
    """Appends samples to a new file that only its owner may read. OSError (a full disk) leaves the file whole up to then."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self._last: dict[str, Any] = {}
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Unbuffered: what a full disk refused must not be tried once more when the file is closed.
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._line(to_plain(header))

    def add(self, sample: Sample) -> None:
        """Append one sample as its difference to the one before."""
        plain = to_plain(sample)
        old = self._last.get(sample.host)
        self._line({"sample": plain} if old is None else {"host": sample.host, "patch": difference(old, plain)})
        self._last[sample.host] = plain

    def _line(self, record: Any) -> None:
        view = memoryview(msgspec.json.encode(record) + b"\n")
        while view:
            view = view[self._file.write(view) :]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> tuple[Header, Iterator[Sample]]:
    """Header and samples of a case. Raises CaseError, also while the samples are drawn; OSError when it cannot be read."""
    lines = _lines(path)
    first = next(lines, b"")
    try:
        header = decode(first, Header)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CaseError(f"{path} is no hangdoc case: its first line is not a header ({error})") from None
    if header.schema != CASE_SCHEMA:
        known = header.schema.startswith(_FAMILY)
        raise CaseError(
            f"{path} has schema {header.schema[:60]!r}, this hangdoc reads {CASE_SCHEMA}"
            + ("; it was written by a newer hangdoc: upgrade to read it" if known else "")
        )
    return header, _samples(path, lines)


def _samples(path: Path, lines: Iterator[bytes]) -> Iterator[Sample]:
    last: dict[str, Any] = {}
    pending: CaseError | None = None
    for number, line in enumerate(lines, 2):
        if pending is not None:
            raise pending  # only the last line may be half
        try:
            record = msgspec.json.decode(line)
            plain = _plain_of(record, last)
            if plain is not None:
                yield convert(plain, Sample)
        except (msgspec.MsgspecError, RecursionError, KeyError, TypeError) as error:
            pending = CaseError(f"{path}, line {number} cannot be read: {error}")


def _plain_of(record: Any, last: dict[str, Any]) -> dict[str, Any] | None:
    """The whole sample that a record stands for; None for a record of another kind."""
    if not isinstance(record, dict):
        raise TypeError("a record is no object")
    if "sample" in record:
        plain = record["sample"]
    elif "patch" in record:
        plain = patched(last[record["host"]], record["patch"])
    else:
        return None
    last[plain["host"]] = plain
    result: dict[str, Any] = plain
    return result


def _lines(path: Path) -> Iterator[bytes]:
    with _open(path) as file:
        while line := file.readline(LINE_LIMIT + 1):
            if len(line) > LINE_LIMIT:
                raise CaseError(f"{path} has a line of more than {LINE_LIMIT >> 20} MB: it is no hangdoc case")
            if line.strip():
                yield line


def _open(path: Path) -> BinaryIO:
    """The file for reading. A named pipe that nobody writes to is at its end; opened plainly it would wait for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")
