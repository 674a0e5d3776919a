"""Profiles from the packaged YAML: read once, decoded strictly, patterns compiled to linear-time automata on demand."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from importlib import resources
from typing import Any, get_args, get_type_hints

import msgspec
import re2
import yaml

from ..model.words import Mechanism, Role, UnseenReason
from .profile import FrameRule, Profile

ENGINES = ("vllm", "sglang")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _unknown_keys(plain: dict[str, Any], kind: type, where: str) -> None:
    """Raise on a key that the dataclass lacks: msgspec can forbid those only in its own structs."""
    hints = _hints(kind)
    for key, value in plain.items():
        if key not in hints:
            raise DataError(where, f"no such key: {key}")
        row_kind = next((one for one in get_args(hints[key]) if dataclasses.is_dataclass(one)), None)
        if isinstance(row_kind, type) and isinstance(value, list):
            for number, row in enumerate(value):
                if isinstance(row, dict):
                    _unknown_keys(row, row_kind, f"{where}: {key}[{number}]")


def parse(text: str, name: str, kind: type[Any]) -> Any:
    """Decode one YAML document into `kind`. Raises DataError with `name` and the key that is wrong."""
    try:
        plain = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, by name
    except yaml.YAMLError as error:
        raise DataError(name, error) from error
    if not isinstance(plain, dict):
        raise DataError(name, "not a mapping")
    _unknown_keys(plain, kind, name)
    try:
        return msgspec.convert(plain, kind, strict=True, str_keys=True)
    except msgspec.ValidationError as error:
        raise DataError(name, error) from error


def _read(name: str) -> str:
    return resources.files(__package__).joinpath("data").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


@functools.cache
def common() -> Common:
    """What holds for Python under any engine."""
    found: Common = parse(_read("python"), "python.yaml", Common)
    return found


@functools.cache
def advice() -> Advice:
    """What to do, by mechanism and by reason of not seeing."""
    found: Advice = parse(_read("advice"), "advice.yaml", Advice)
    return found


def _with_common(profile: Profile) -> Profile:
    shared = common()
    return dataclasses.replace(
        profile,
        child_roles={**profile.child_roles, **shared.child_roles},
        wrappers=profile.wrappers + shared.wrappers,
        chatter=profile.chatter + shared.chatter,
        fatal=profile.fatal + shared.fatal,
    )


@functools.cache
def profiles() -> dict[str, Profile]:
    """Profiles by engine id, the shared Python part merged in; "unknown" stands for any other server."""
    found = {}
    for engine in ENGINES:
        profile: Profile = parse(_read(engine), f"{engine}.yaml", Profile)
        found[engine] = _with_common(profile)
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
