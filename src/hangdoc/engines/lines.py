"""What a log line says: its writer, mark, progress, time; tracebacks. Pure, linear in the text.

Written for 100,000 lines a second: one automaton for all marks decides first whether a line is of interest at all.
"""

from __future__ import annotations

import calendar
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import re2

from ..model.launch import Rank
from ..model.words import Role
from .load import pattern
from .profile import Mark, Profile
from .roles import rank_of
from .versions import within

LINE_BOUND = 8192  # characters kept of one line
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_ENDS = re.compile(r"\r\n|\n|\r")
_LEVEL = re2.compile(r"^(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL):? +(?:(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) )?(?:\[[^\]]{1,200}\] ?)?")
_ISO = re2.compile(r"^\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_MONTH = re2.compile(r"^(?:\(.{1,80}?\) )?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_BAR = re.compile(r"(\d{1,7})/(\d{1,7}) \[")
_BAR_SGLANG = re.compile(r"\|\s*(\d{1,7})/(\d{1,7})\s*$")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re2.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration|Group|Dead\w*|Timeout)?\b(?:: .*|:?)$")
_INSIDE = re2.compile(r"^(?:\s|$|The above exception|During handling|\[|\|)")


@dataclass(frozen=True)
class Writer:
    """Who wrote a line, as far as its prefix says. `pid` is the number in the writer's own pid namespace."""

    role: Role | None = None
    rank: Rank = Rank()
    pid: int | None = None


@dataclass(frozen=True)
class Bar:
    """n of m, from the last progress bar in a line."""

    done: int
    total: int


@dataclass(frozen=True)
class Traceback:
    """A Python traceback in a log: who wrote it, where it starts, and the line that names the exception."""

    writer: Writer
    exception: str  # "" when the text ends before it
    start: int  # index of its first line
    end: int  # index after its last line


NOBODY = Writer()


def split(text: str) -> list[str]:
    """Lines of a piece of log: ended by a line feed, or by the carriage return of a progress bar; colours removed, bounded."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    lines = _ENDS.split(text) if "\r" in text else text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [line if len(line) <= LINE_BOUND else line[:LINE_BOUND] for line in lines]


@functools.lru_cache(maxsize=65536)
def _writer(head: str, role: Role | None, groups: tuple[tuple[str, str | None], ...]) -> Writer:
    named = dict(groups)
    rank = rank_of(named)
    pid = named.get("pid")
    if role is None and "[" in head:  # SGLang: the launcher writes without a rank, schedulers with one
        role = "scheduler" if rank != Rank() else "launcher"
    return Writer(role, rank, int(pid) if pid else None)


def writer(line: str, profile: Profile) -> tuple[Writer, str]:
    """Who wrote the line, and the message without prefix, level and time."""
    found = NOBODY
    if line[:1] in ("(", "["):
        for prefix in profile.prefixes:
            match = pattern(prefix.match).search(line)
            if match:
                found = _writer(line[:1], prefix.role, tuple(match.groupdict().items()))
                line = line[match.end() :]
                break
    level = _LEVEL.search(line) if line[:1] in ("I", "W", "E", "D", "C") else None
    return found, line[level.end() :] if level else line


def timestamp(line: str, year: int = 1970) -> float | None:
    """The time a line carries, in seconds, without time zone: only differences of two lines of one log mean anything.

    vLLM writes no year: give it, else 1970 stands for it.
    """
    found = _ISO.search(line)
    numbers = [int(one) for one in found.groups()] if found else []
    if not found and (found := _MONTH.search(line)):
        numbers = [year, *(int(one) for one in found.groups())]
    if not numbers or not (1 <= numbers[1] <= 12 and 1 <= numbers[2] <= 31):
        return None
    return float(calendar.timegm((*numbers, 0, 0, 0)))  # type: ignore[arg-type]


class _Set:
    """Many patterns as one automaton: which of them are in a line."""

    def __init__(self, patterns: Sequence[str]) -> None:
        options = re2.Options()
        options.max_mem = 64 << 20
        self._set: Any = re2.Set.SearchSet(options)
        self._empty = not patterns
        for one in patterns:
            self._set.Add(one)
        self._set.Compile()

    def __call__(self, line: str) -> list[int]:
        return [] if self._empty else sorted(self._set.Match(line) or ())


class Reader:
    """The compiled patterns of one profile and version. Make it once, use it for every line (`reader()` caches it)."""

    def __init__(self, profile: Profile, version: str | None) -> None:
        self.marks = tuple(mark for mark in profile.marks if within(version, mark.versions))
        self._marks = _Set([mark.match for mark in self.marks])
        self._chatter = _Set(profile.chatter)
        self._fatal = _Set(profile.fatal)

    def mark(self, line: str, writer: Writer = NOBODY) -> Mark | None:
        """The first mark that the line meets and its writer may write."""
        for index in self._marks(line):
            mark = self.marks[index]
            if not mark.roles or writer.role is None or writer.role in mark.roles:
                return mark
        return None

    def is_chatter(self, line: str) -> bool:
        """Whether the line only says "still waiting"."""
        return bool(self._chatter(line))

    def is_fatal(self, line: str) -> bool:
        """Whether the line announces the end."""
        return bool(self._fatal(line))


_READERS: dict[tuple[str, int, str | None], Reader] = {}


def reader(profile: Profile, version: str | None = None) -> Reader:
    """The reader for a profile and version, made once."""
    key = (profile.engine, id(profile), version)
    if key not in _READERS:
        _READERS[key] = Reader(profile, version)
    return _READERS[key]


def mark_of(line: str, profile: Profile, version: str | None = None) -> Mark | None:
    """The mark that a whole line (with its prefix) is, or None."""
    found = reader(profile, version)
    return found.mark(line, writer(line, profile)[0]) if found.mark(line) else None


def is_chatter(line: str, profile: Profile) -> bool:
    """Whether a line only says "still waiting"."""
    return reader(profile).is_chatter(line)


def is_fatal(line: str, profile: Profile) -> bool:
    """Whether a line announces the end."""
    return reader(profile).is_fatal(line)


def progress_of(line: str) -> Bar | None:
    """n of m of the last progress bar (tqdm's form) in a line."""
    if "/" not in line or ("[" not in line and "|" not in line):
        return None
    last = None
    for found in _BAR.finditer(line):
        last = found
    last = last or _BAR_SGLANG.search(line)
    if not last or int(last[2]) == 0 or int(last[1]) > int(last[2]):
        return None
    return Bar(int(last[1]), int(last[2]))


def tracebacks(lines: Sequence[str], profile: Profile) -> list[Traceback]:
    """Tracebacks in the order in which they begin. Lines of other writers in between are passed over."""
    found = []
    for start, line in enumerate(lines):
        if _TRACEBACK not in line:
            continue
        who, _ = writer(line, profile)
        exception, end = "", len(lines)
        for at in range(start + 1, min(start + 2000, len(lines))):
            other, message = writer(lines[at], profile)
            if other != who:
                if who == NOBODY and not _INSIDE.search(message):
                    end = at
                    break
                continue
            if _INSIDE.search(message) and _TRACEBACK not in message:
                continue
            if _TRACEBACK not in message:
                exception = message.strip()
            end = at + (_TRACEBACK not in message)
            break
        found.append(Traceback(who, exception, start, end))
    return found
