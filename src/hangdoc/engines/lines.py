"""What a log line says: its writer, mark, progress, time; tracebacks. Pure, linear in the text.

Written for 100,000 lines a second: one automaton holds all patterns of an engine, a writer is looked up by its prefix.
"""

from __future__ import annotations

import calendar
import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..model.launch import Rank
from ..model.words import Role
from .load import PatternSet
from .profile import Mark, Prefix, Profile
from .roles import rank_of
from .versions import within

LINE_BOUND = 8192  # characters kept of one line
_PREFIX_BOUND = 120
_DRAWN_BOUND = 128
_CACHE_BOUND = 1 << 16
_TRACEBACK_BOUND = 2000  # lines looked at for the end of a traceback
_MONTHS, _DAYS = range(1, 13), range(1, 32)

# These are plain `re`: they are ours, begin at the start or at a rare character, and nest no repetition.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_ENDS = re.compile(r"\r\n|\n|\r")
_GLUED = re.compile(r"(/it\]|it/s\])(?=[\[(\w])")  # another process wrote behind a progress bar
_LEVEL = re.compile(
    r"(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL):? +(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w./<>-]{1,200}:\d+\] ?)?"
)
_ISO = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_MONTH = re.compile(
    r"(?:\([^)]{1,80}\) )?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)"
)
_BAR = re.compile(r"(?<!\d)(\d{1,7})/(\d{1,7})(?: \[|\s*$)")
_DRAWN = re.compile(
    r"\d/\d{1,7} \[[^\[\]\r\n]{1,100}\]\Z"
)  # a bar to its end: what ends its line comes with its next step
_TRACEBACK = "Traceback (most recent call last):"
_INSIDE = re.compile(r"\s|$|The above exception|During handling|\[|\|")


class Writer(msgspec.Struct, frozen=True):
    """Who wrote a line, as far as its prefix says. `pid` is the number in the writer's own pid namespace."""

    role: Role | None = None
    rank: Rank = Rank()
    pid: int | None = None


class Bar(NamedTuple):
    """n of m, from the last progress bar in a line."""

    done: int
    total: int


class Line(NamedTuple):
    """All that one line says."""

    text: str
    writer: Writer
    message: str  # without prefix, level and time
    mark: Mark | None
    bar: Bar | None
    chatter: bool = False  # only says "still waiting"
    fatal: bool = False  # announces the end
    cold: bool = False  # tells of something compiled that a cache did not have
    warm: bool = False  # tells of something taken from a cache of compiled things


_KINDS = ("chatter", "fatal", "cold", "warm")  # the last fields of a line, as a profile names their patterns


class Traceback(msgspec.Struct, frozen=True):
    """A Python traceback in a log."""

    writer: Writer
    exception: str  # the line that names it; "" when the text ends before
    start: int  # index of its first line
    end: int  # index after its last line


NOBODY = Writer()


def whole(text: str) -> int:
    """Length of the part of a text that is whole lines. A progress bar that is drawn to its end is one: its line ends
    only when it takes its next step, which would make it a step late."""
    end = max(text.rfind("\n"), text.rfind("\r")) + 1
    return len(text) if _DRAWN.search(text, max(end, len(text) - _DRAWN_BOUND)) else end


def split(text: str) -> list[str]:
    """Lines, ended by a line feed or by the carriage return of a progress bar; colours removed, bounded."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "it/s]" in text or "/it]" in text:
        text = _GLUED.sub(r"\1\n", text)
    lines = _ENDS.split(text) if "\r" in text else text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line if len(line) <= LINE_BOUND else line[:LINE_BOUND] for line in lines]


def timestamp(line: str, year: int = 1970) -> float | None:
    """The time a line carries, in seconds, time zone unknown: only differences between lines of one log mean anything.

    vLLM writes no year: give it, else 1970 stands for it.
    """
    found = _ISO.match(line)
    numbers = [int(one) for one in found.groups()] if found else []
    if not found and (found := _MONTH.match(line)):
        numbers = [year, *(int(one) for one in found.groups())]
    if not numbers or numbers[1] not in _MONTHS or numbers[2] not in _DAYS:
        return None
    return float(calendar.timegm((*numbers, 0, 0, 0)))


def progress_of(line: str) -> Bar | None:
    """n of m of the last progress bar (tqdm's form, with a percentage) in a line."""
    if "%" not in line:
        return None
    found = _BAR.findall(line)
    if not found:
        return None
    done, total = int(found[-1][0]), int(found[-1][1])
    return Bar(done, total) if done <= total and total > 0 else None


class Reader:
    """The compiled patterns of one profile and version, for every line of its logs. `reader()` keeps one of each."""

    def __init__(self, profile: Profile, version: str | None) -> None:
        """Compile. Takes some milliseconds."""
        self.marks = tuple(mark for mark in profile.marks if within(version, mark.versions))
        others = [(kind, text) for kind in _KINDS for text in getattr(profile, kind)]
        self._kinds = [*([""] * len(self.marks)), *(kind for kind, _ in others)]  # of each pattern
        self._prefixes = tuple((re.compile(one.match), one) for one in profile.prefixes)
        self._writers: dict[str, tuple[Writer, int]] = {}
        self.hits = PatternSet([*(mark.match for mark in self.marks), *(text for _, text in others)]).hits

    def _mark(self, hits: Sequence[int], who: Writer) -> Mark | None:
        for index in hits:
            if index >= len(self.marks):
                break
            roles = self.marks[index].roles
            if not roles or who.role is None or who.role in roles:
                return self.marks[index]
        return None

    def _is(self, kind: str, line: str) -> bool:
        return any(self._kinds[index] == kind for index in self.hits(line))

    def mark(self, line: str) -> Mark | None:
        """The first mark that the line meets and its writer may write."""
        hits = self.hits(line)
        return self._mark(hits, self.writer(line)[0]) if hits else None

    def is_chatter(self, line: str) -> bool:
        """Whether the line only says "still waiting"."""
        return self._is("chatter", line)

    def is_fatal(self, line: str) -> bool:
        """Whether the line announces the end."""
        return self._is("fatal", line)

    def writer(self, line: str) -> tuple[Writer, str]:
        """Who wrote the line, and the message without prefix, level and time."""
        who, at = NOBODY, 0
        if line[:1] in ("(", "["):
            end = line.find(")" if line[0] == "(" else "]", 0, _PREFIX_BOUND)
            if end > 0:
                key = line[: end + 3]  # with the colon and the blank that may follow
                known = self._writers.get(key)
                who, at = known if known else self._learn(key)
        level = _LEVEL.match(line, at)
        return who, line[level.end() :] if level else line[at:] if at else line

    def _learn(self, key: str) -> tuple[Writer, int]:
        found = NOBODY, 0
        for pattern, prefix in self._prefixes:
            if match := pattern.search(key):
                found = _writer(prefix, match.groupdict()), match.end()
                break
        if len(self._writers) > _CACHE_BOUND:  # a log must not fill the memory
            self._writers.clear()
        self._writers[key] = found
        return found

    def read(self, line: str) -> Line:
        """All that a line says."""
        who, message = self.writer(line)
        hits = self.hits(line)
        if not hits:
            return Line(line, who, message, None, progress_of(line))
        kinds = {self._kinds[index] for index in hits}
        return Line(line, who, message, self._mark(hits, who), progress_of(line), *(kind in kinds for kind in _KINDS))


def _writer(prefix: Prefix, groups: dict[str, str | None]) -> Writer:
    rank, pid = rank_of(groups), groups.get("pid")
    role = prefix.role or (prefix.ranked if rank != Rank() else None)
    return Writer(role, rank, int(pid) if pid else None)


_READERS: dict[tuple[str, str | None], tuple[Profile, Reader]] = {}


def reader(profile: Profile, version: str | None = None) -> Reader:
    """The reader for a profile and version, made once."""
    known = _READERS.get((profile.engine, version))
    if known is None or known[0] is not profile:
        known = profile, Reader(profile, version)
        _READERS[profile.engine, version] = known
    return known[1]


def writer(line: str, profile: Profile) -> tuple[Writer, str]:
    """Who wrote the line, and the message without prefix, level and time."""
    return reader(profile).writer(line)


def mark_of(line: str, profile: Profile, version: str | None = None) -> Mark | None:
    """The mark that a whole line (with its prefix) is, or None."""
    return reader(profile, version).mark(line)


def is_chatter(line: str, profile: Profile) -> bool:
    """Whether a line only says "still waiting"."""
    return reader(profile).is_chatter(line)


def is_fatal(line: str, profile: Profile) -> bool:
    """Whether a line announces the end."""
    return reader(profile).is_fatal(line)


@functools.lru_cache(maxsize=8)
def _patterns(texts: tuple[str, ...]) -> PatternSet:
    return PatternSet(texts)


def is_echo(exception: str, profile: Profile) -> bool:
    """Whether an exception only tells that somebody else failed or ended."""
    return bool(_patterns(profile.echoes).hits(exception))


def _traceback(lines: Sequence[str], start: int, who: Writer, find: Reader) -> Traceback:
    last = who
    for at in range(start + 1, min(start + _TRACEBACK_BOUND, len(lines))):
        other, message = find.writer(lines[at])
        # A logger puts its prefix before the first line of a record only: bare lines go on with the last record.
        if who != NOBODY and other == NOBODY:
            other = last
        last = other
        if other != who:  # another process writes in between
            continue
        if _TRACEBACK in message:
            return Traceback(who, "", start, at)
        if not _INSIDE.match(message):
            return Traceback(who, message.strip(), start, at + 1)
    return Traceback(who, "", start, len(lines))


def tracebacks(lines: Sequence[str], profile: Profile) -> list[Traceback]:
    """Tracebacks in the order in which they begin. Lines of other writers in between are passed over."""
    find = reader(profile)
    return [
        _traceback(lines, start, find.writer(line)[0], find) for start, line in enumerate(lines) if _TRACEBACK in line
    ]
