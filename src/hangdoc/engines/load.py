"""Profiles from the YAML that ships: decoded strictly and once, patterns compiled to linear-time automata on demand."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import re2

from ..model.words import Mechanism, Role, UnseenReason
from ..shipped import documents
from .profile import FrameRule, Profile

ENGINES = ("vllm", "sglang")
_T = TypeVar("_T")


class DataError(ValueError):
    """A data file that does not say what it should: where (file and key), and what is wrong."""

    def __init__(self, where: str, what: object) -> None:
        """Join both to one message."""
        super().__init__(f"{where}: {what}")


class Common(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is true of Python under any engine (`python.yaml`)."""

    frames: tuple[FrameRule, ...]
    child_roles: dict[str, Role]
    wrappers: tuple[str, ...]
    chatter: tuple[str, ...]
    fatal: tuple[str, ...]
    echoes: tuple[str, ...]
    libraries: tuple[str, ...]  # import names of packages whose inner frames explain nothing and hide nothing


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do now, and how to see more (`advice.yaml`)."""

    next: dict[Mechanism, tuple[str, ...]]
    see_more: dict[UnseenReason, str]
    see_more_of: dict[str, dict[UnseenReason, str]]  # the same for one probe, where that is another answer
    deep: dict[Mechanism, str]  # what --deep would add
    reach: dict[
        str, str
    ]  # pattern of what was said when a host could not be reached -> what to do; the first that fits


def decode(data: bytes, name: str, kind: type[_T]) -> _T:
    """One document (msgpack) as `kind`. Raises DataError with `name` and the key that is wrong."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise DataError(name, error) from error


def _read(name: str, kind: type[_T]) -> _T:
    return decode(documents("engines")[name], name, kind)


@functools.cache
def common() -> Common:
    """What holds for Python under any engine."""
    return _read("python.yaml", Common)


@functools.cache
def advice() -> Advice:
    """What to do, by mechanism and by reason of not seeing."""
    return _read("advice.yaml", Advice)


def _with_common(profile: Profile) -> Profile:
    shared = common()
    return msgspec.structs.replace(
        profile,
        child_roles={**profile.child_roles, **shared.child_roles},
        wrappers=profile.wrappers + shared.wrappers,
        chatter=profile.chatter + shared.chatter,
        fatal=profile.fatal + shared.fatal,
        echoes=profile.echoes + shared.echoes,
    )


@functools.cache
def profiles() -> dict[str, Profile]:
    """Profiles by engine id, the shared Python part merged in; "unknown" stands for any other server."""
    found = {engine: _with_common(_read(f"{engine}.yaml", Profile)) for engine in ENGINES}
    found["unknown"] = _with_common(
        Profile(
            "unknown", "unknown engine", (), (), 8000, "/health", (), (), (), (), (), untitled={"launcher": "worker"}
        )
    )
    return found


def merged_frames(profile: Profile) -> tuple[FrameRule, ...]:
    """The engine's frame rules, then those of Python: the first one that answers counts, so the engine may overrule."""
    return profile.frames + common().frames


class PatternSet:
    """Many patterns as one linear-time automaton."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Compile all of `texts`."""
        options = re2.Options()
        options.max_mem = 64 << 20
        self._set: Any = re2.Set.SearchSet(options)
        for text in texts:
            self._set.Add(text)
        self._set.Compile()

    def hits(self, line: str) -> list[int]:
        """Numbers of the patterns that are in the line, ascending."""
        found = self._set.Match(line)
        return sorted(found) if found else []


@functools.lru_cache(maxsize=64)
def pattern_set(texts: tuple[str, ...]) -> PatternSet:
    """The automaton for these patterns, made once."""
    return PatternSet(texts)


@functools.lru_cache(maxsize=4096)
def pattern(text: str) -> Any:
    """A compiled google-re2 pattern: linear time, whatever the line."""
    try:
        return re2.compile(text)
    except re2.error as error:
        raise DataError(text, error) from error
