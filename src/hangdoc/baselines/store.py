"""Baselines as YAML files: written so that a diff can be read, read as if somebody hostile had written them."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from .. import shipped, yamls
from ..codec import convert
from ..model.baseline import BASELINE_SCHEMA, CACHES, Baseline, Configuration, Provenance
from ..model.plain import to_plain
from .merge import MOST_RUNS, summed

SIZE = 2 << 20  # bytes of one file
_NODES = 100_000
_DEPTH = 8
_TEXT = 2000  # characters of one value
_FAMILY = "hangdoc.baseline/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HEAD_ENDS = "\nruns:"
_FLOW = ("runs", "phases", "lines", "processes", "waits")  # one row, one line: a diff shows what changed


class BaselineError(Exception):
    """A baseline that cannot be read, found or written; the message says which, and what is wrong in which key."""


def checked_name(name: str) -> str:
    """A name that stays in its folder. Raises BaselineError for any other."""
    if not _NAME.fullmatch(name) or name.endswith((".yaml", ".yml")):
        raise BaselineError(
            f"{name[:60]!r} is no name for a baseline: letters, digits, dot, dash and underscore, not a path, without .yaml"
        )
    return name


def user_folder() -> Path:
    """Where the user's own baselines are."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "hangdoc" / "baselines"


def names() -> dict[str, Path]:
    """All baselines by name, the user's own before shipped ones of the same name."""
    return dict(sorted({**_in(shipped.FOLDERS["baselines"]), **_in(user_folder())}.items()))


def _in(folder: Path) -> dict[str, Path]:
    try:
        paths = sorted(folder.glob("*.yaml"))
    except OSError:
        return {}
    return {path.stem: path for path in paths if _NAME.fullmatch(path.stem)}


def find(wanted: str) -> Path:
    """The file that NAME or FILE means. A word with a slash or an ending is a file. Raises BaselineError."""
    if "/" in wanted or wanted.endswith((".yaml", ".yml")):
        return Path(wanted)
    known = names()
    if checked_name(wanted) in known:
        return known[wanted]
    listed = ", ".join(list(known)[:12]) or "none"
    raise BaselineError(f"there is no baseline {wanted!r}; on record: {listed}")


def read(path: Path) -> Baseline:
    """A whole baseline. Raises BaselineError with file and key."""
    return parse(_text(path), str(path))


def heads() -> Iterator[tuple[Baseline, Callable[[], Baseline]]]:
    """The head of each baseline, and what reads all of it. Those that ship are trusted; of the user's own, one that
    cannot be read is left out: `hangdoc baselines list` tells of it."""
    own = _in(user_folder())
    for name, data in shipped.documents("baselines").items():
        if name.removesuffix(".yaml") not in own:
            head = msgspec.msgpack.decode(data, type=_Head)
            yield Baseline(head.name, head.configuration, head.provenance), functools.partial(_trusted, data)
    for path in own.values():
        try:
            yield read_head(path), functools.partial(read, path)
        except BaselineError:
            continue


def _trusted(data: bytes) -> Baseline:
    return summed(msgspec.msgpack.decode(data, type=Baseline))


class _Head(msgspec.Struct):
    """What a baseline is of; the rest of its document is passed over."""

    name: str
    configuration: Configuration
    provenance: Provenance = Provenance()


def read_head(path: Path) -> Baseline:
    """A baseline without its runs, phases and lines: enough to tell what it is of, in a fraction of the time."""
    text = _text(path)
    head, found, _ = text.partition(_HEAD_ENDS)
    return parse(head + "\n" if found else text, str(path))


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise BaselineError(f"{path} is no file" if path.exists() else f"{path}: there is no such file")
        with path.open("rb") as file:
            data = file.read(SIZE + 1)
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > SIZE:
        raise BaselineError(f"{path} is larger than {SIZE >> 20} MB: it is no baseline")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BaselineError(f"{path} is not text in UTF-8") from None


def parse(text: str, where: str) -> Baseline:
    """Decode one document, quantiles told anew from its runs. Raises BaselineError."""
    try:
        plain = yamls.read(text, _NODES, _DEPTH)
    except yamls.Refused as error:
        raise BaselineError(f"{where}: {error}") from None
    if not isinstance(plain, dict):
        raise BaselineError(f"{where} is no baseline: not a mapping")
    schema = plain.get("schema")
    if schema != BASELINE_SCHEMA:
        newer = isinstance(schema, str) and schema.startswith(_FAMILY)
        hint = "; it was written by a newer hangdoc: upgrade to read it" if newer else ""
        raise BaselineError(f"{where} has schema {str(schema)[:60]!r}, this hangdoc reads {BASELINE_SCHEMA}{hint}")
    _unknown_keys(plain, Baseline, where)
    try:
        found = convert(plain, Baseline)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BaselineError(f"{where}: {yamls.one_line(error)}") from None
    _sensible(found, where)
    return summed(found)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _unknown_keys(plain: Any, kind: Any, where: str) -> None:
    """Raise on a key that a dataclass lacks, at any depth."""
    if isinstance(plain, list):
        for row in plain:
            for inner in get_args(kind):
                _unknown_keys(row, inner, where)
    if not isinstance(plain, dict):
        return
    if not dataclasses.is_dataclass(kind):
        return
    hints = _hints(kind)  # type: ignore[arg-type]
    for key, value in plain.items():
        if key not in hints:
            raise BaselineError(f"{where}: no such key: {str(key)[:60]} (in {kind.__name__})")  # type: ignore[union-attr]
        _unknown_keys(value, hints[key], f"{where}: {key}")


def _sensible(one: Baseline, where: str) -> None:
    """Refuse figures that cannot be: edited by hand, or cut off."""
    checked_name(one.name)
    runs = len(one.runs)
    if runs > MOST_RUNS:
        raise BaselineError(f"{where}: more than {MOST_RUNS} runs")
    for key, values in _by_run(one):
        if len(values) not in (0, runs):
            raise BaselineError(f"{where}: {key} has {len(values)} figures for {runs} runs")
        if not all(_can_be(value) for value in values):
            raise BaselineError(f"{where}: {key} has a figure that cannot be: {values}")
    if not _can_be(one.configuration.weight_bytes):
        raise BaselineError(f"{where}: weight_bytes cannot be {one.configuration.weight_bytes}")
    for caches in (one.configuration.caches, *(run.caches for run in one.runs)):
        if caches not in CACHES:
            raise BaselineError(f"{where}: caches are one of {', '.join(CACHES)}, not {caches[:60]!r}")
    for key, value in _texts(one):
        if len(value) > _TEXT:
            raise BaselineError(f"{where}: {key} is longer than {_TEXT} characters")
    if len({row.id for row in one.phases}) < len(one.phases):
        raise BaselineError(f"{where}: a phase is there twice")


def _can_be(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and 0 <= value < 1e18)


def _by_run(one: Baseline) -> Iterator[tuple[str, tuple[float | None, ...]]]:
    for row in one.phases:
        for key in ("start_s", "duration_s", "lines", "bytes", "rss"):
            yield f"phase {row.id}, {key}", getattr(row, key)
        for label, values in row.dwell_s.items():
            yield f"phase {row.id}, dwell_s of {label[:40]}", values
    for number, line in enumerate(one.lines):
        yield f"lines[{number}].first_s", line.first_s
    for role in one.processes:
        yield f"processes, threads of {role.role}", role.threads
    for key in ("ready_s", "lines", "bytes", "compiled", "read_bytes"):
        yield f"runs, {key}", tuple(getattr(run, key) for run in one.runs)


def _texts(one: Baseline) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(one.lines):
        yield f"lines[{number}].text", line.text
    yield "model", one.configuration.model or ""
    yield "source", one.provenance.source
    yield "note", one.provenance.note


def text(one: Baseline) -> str:
    """The baseline as YAML: keys in the order of the form, one row on one line."""
    plain = to_plain(one)
    ordered: dict[str, Any] = {"schema": one.schema, "name": one.name}
    for key in ("configuration", "provenance", "runs", "phases", "lines", "processes", "ports", "waits"):
        if key in plain:
            ordered[key] = [yamls.Row(row) for row in plain[key]] if key in _FLOW else plain[key]
    return yamls.dump(ordered)


def write(one: Baseline, path: Path) -> None:
    """Write it whole or not at all. Raises BaselineError."""
    import tempfile  # noqa: PLC0415 - 2 ms that whoever only reads does not spend

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".new", delete=False, encoding="utf-8") as file:
            try:
                file.write(text(one))
                file.flush()
                Path(file.name).replace(path)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise BaselineError(f"{path} cannot be written: {error.strerror}") from None
