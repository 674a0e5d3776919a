"""Record one good start: samples in, one run with all its figures out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import msgspec

from .. import __version__
from ..analysis import caches, configuration, progression
from ..analysis.diagnosis import Diagnosis
from ..analysis.progression import Span
from ..engines import lines
from ..model.baseline import (
    Baseline,
    BaselineLine,
    Configuration,
    PhaseTimes,
    RoleCount,
    Run,
    WaitSignature,
)
from ..model.frozen import replace
from ..model.launch import Launch, Member
from ..model.sample import Sample
from ..model.words import Role

LINES = 2000  # different lines kept: a start prints some hundred
WAITS = 80
_JUMP_S = 5.0  # wall and monotonic clock may part by so much
_LATE_S = 10.0  # first seen later than so after its start: not watched from the beginning


class NotGood(Exception):
    """This start cannot be recorded; the message says why."""


class _Seen(msgspec.Struct):
    """One kind of line."""

    role: Role | None
    first: float | None  # wall clock


class _Tick(msgspec.Struct, frozen=True):
    at: float  # seconds since the start
    lines: int | None
    bytes: int | None
    rss: int


class Recorder:
    """Feed it the samples of one start in order, then ask for its `baseline`.

    `root` is the pid of the launch's root process. Waiting members are looked at on every sample when `watch_waits`.
    """

    def __init__(self, root: int, *, watch_waits: bool = True) -> None:
        """Begin with an empty diagnosis that tells of every line."""
        self.root, self.watch_waits = root, watch_waits
        self.diagnosis = Diagnosis(root, on_line=self._line)
        self._lines: dict[str, _Seen] = {}
        self._ticks: list[_Tick] = []
        self._waits: dict[WaitSignature, None] = {}
        self._threads: dict[Role, int] = {}
        self._health_at: float | None = None
        self._age_at_first = 0.0
        self._drift: tuple[float, float] | None = None  # least and most that wall and monotonic clock differ
        self._rotated = False
        self._alone = False  # there is a log and nothing else

    def _line(self, line: lines.Line, pid: int | None, at: float | None, shape: str) -> None:
        if not shape or shape in self._lines or len(self._lines) >= LINES:
            return
        launch = self.diagnosis.launch
        member = launch.members.get(pid) if launch and pid is not None else None
        self._lines[shape] = _Seen(member.role if member else line.writer.role, at)

    def add(self, sample: Sample) -> None:
        """Fold one sample in."""
        self.diagnosis.add(sample)
        launch = self.diagnosis.launch
        if launch is None:
            return
        apart = sample.at - sample.mono
        low, high = self._drift or (apart, apart)
        self._drift = min(low, apart), max(high, apart)
        root = launch.members.get(launch.root)
        age = sample.boot - root.start if root else 0.0
        if not self._ticks:
            self._age_at_first = age
        self._rotated = self._rotated or any(one.note in ("rotated", "truncated") for one in sample.logs)
        if self._health_at is None and any(one.status == 200 and one.port == launch.port for one in sample.health):
            self._health_at = age
        self._resources(sample, launch, age)
        if self.watch_waits and "stacks" in sample.probes and self._health_at is None:
            self._wait_signatures()

    def read_log(self, launch: Launch, sample: Sample) -> None:
        """Take in the log of a start of which nothing else is left."""
        self._alone = True
        self.diagnosis.read_log(launch, sample)
        sizes = [(one.lines, one.size) for one in sample.logs]
        self._ticks.append(_Tick(0.0, *sizes[0], 0) if sizes else _Tick(0.0, None, None, 0))

    def _resources(self, sample: Sample, launch: Launch, age: float) -> None:
        rows = [sample.processes[pid] for pid in launch.members if pid in sample.processes]
        counted = [one for one in sample.logs if one.lines is not None and one.size is not None]
        last = self._ticks[-1] if self._ticks else _Tick(0.0, None, None, 0)
        self._ticks.append(
            _Tick(
                age,
                sum(one.lines or 0 for one in counted) if counted else last.lines,
                sum(one.size or 0 for one in counted) if counted else last.bytes,
                sum(one.rss or 0 for one in rows) or last.rss,
            )
        )
        for one in rows:
            role = launch.members[one.pid].role
            self._threads[role] = max(self._threads.get(role, 0), one.num_threads or 0)

    def _wait_signatures(self) -> None:
        for one in self.diagnosis.pictures():
            still = one.victim or one.idle or one.moving is False
            if still and one.member.needed and one.phase and len(self._waits) < WAITS:
                function = one.frame.function if one.frame else ""
                self._waits.setdefault(WaitSignature(one.member.role, one.phase, one.mechanism, function))

    def ready_s(self) -> float | None:
        """Seconds from start to ready: its own line that says so, else the first answer of the health path."""
        book, launch = self.diagnosis.logbook, self.diagnosis.launch
        if book is None or launch is None:
            return None
        said = progression.ready_at((*book.by_member.values(), book.others), self._started())
        known = [one for one in (said, self._health_at if self._age_at_first < _LATE_S else None) if one is not None]
        return min(known) if known else None

    def _started(self) -> float:
        """Wall clock at which the root process started; of a log alone, that of its first line with a time."""
        launch, last = self.diagnosis.launch, self.diagnosis.history.last
        root = launch.members.get(launch.root) if launch else None
        if root is None or last is None:
            raise NotGood("no launch was seen")
        if root.start <= 0:  # a log alone
            return min((one.first for one in self._lines.values() if one.first is not None), default=0.0)
        return last.at - (last.boot - root.start)

    def baseline(self, name: str, by: str) -> Baseline:
        """The start as a baseline of one run. Raises NotGood when it did not become ready or cannot be trusted."""
        book, launch = self.diagnosis.logbook, self.diagnosis.launch
        if book is None or launch is None:
            raise NotGood("no launch was seen")
        if self._drift and self._drift[1] - self._drift[0] > _JUMP_S:
            raise NotGood(f"the wall clock jumped by {self._drift[1] - self._drift[0]:.0f} s while it was recorded")
        ready, answered = self.ready_s(), self._health_at is not None
        if ready is None and not answered:
            raise NotGood("it did not become ready: " + self._last_word())
        started = self._started()
        partial = self._alone or self._age_at_first > _LATE_S or self._rotated or book.gaps
        end = self._ticks[-1] if self._ticks else _Tick(0.0, None, None, 0)
        day = time.strftime(
            "%Y-%m-%d", time.gmtime(self.diagnosis.history.last.at if self.diagnosis.history.last else 0)
        )
        now, seen = self._configuration(launch), caches.found(self.diagnosis.history, book, launch)
        lines_, bytes_ = (None, None) if self._rotated else (end.lines, end.bytes)
        run = Run(
            day, by, partial, _round(ready), lines_, bytes_, now.caches, seen.compiled or None, seen.read_bytes,
            seen.downloaded or None, __version__,
        )  # fmt: skip
        order = self.diagnosis.order()
        spans = progression.front(order, book.by_member, book.others, started, ready)
        dwell = {
            member.label: self._spans_of(member, started, ready)
            for member in launch.needed
            if member.pid in book.by_member
        }
        return Baseline(
            name,
            now,
            runs=(run,),
            phases=tuple(self._phases(spans, dwell, partial=partial)),
            lines=tuple(self._kept_lines(started, ready)),
            processes=tuple(self._processes(launch)),
            ports=self._ports(launch),
            waits=tuple(sorted(self._waits, key=lambda one: (one.role, one.phase, one.mechanism, one.function))),
        )

    def _last_word(self) -> str:
        judgement = self.diagnosis.judgement(ended=True)
        where = f", in phase {judgement.phase}" if judgement.phase else ""
        return f"its last verdict is {judgement.verdict}{where}"

    def _configuration(self, launch: Launch) -> Configuration:
        book = self.diagnosis.logbook
        found = configuration.configuration(self.diagnosis.history, launch, self.diagnosis.version(), book)
        return replace(found, caches="unknown") if self._age_at_first > _LATE_S or self._alone else found

    def _spans_of(self, member: Member, started: float, ready: float | None) -> tuple[Span, ...]:
        book, launch = self.diagnosis.logbook, self.diagnosis.launch
        root = launch.members.get(launch.root) if launch else None
        if book is None or root is None:
            return ()
        began = max(0.0, member.start - root.start)
        found = progression.moments(book.by_member[member.pid], started)
        return progression.spans(self.diagnosis.order(), found, began, ready)

    def _phases(
        self, spans: tuple[Span, ...], dwell: dict[str, tuple[Span, ...]], *, partial: bool
    ) -> Iterator[PhaseTimes]:
        front = {one.phase: one for one in spans}
        for spec in self.diagnosis.order():
            theirs: dict[str, tuple[float | None, ...]] = {
                label: (_round(one.seconds(one.start)),)
                for label, found in sorted(dwell.items())
                for one in found
                if one.phase == spec.id and one.end is not None
            }
            span = front.get(spec.id)
            if span is None and not theirs:
                continue
            took = _round(span.seconds(span.start)) if span is not None and span.end is not None else None
            at = self._tick_at(span.end) if span is not None and not partial else None
            yield PhaseTimes(
                spec.id, (_round(span.start) if span else None,), (took,), took, took, theirs,
                (at.lines if at else None,), (at.bytes if at else None,), (at.rss if at else None,),
            )  # fmt: skip

    def _tick_at(self, at: float | None) -> _Tick | None:
        """The figures when a phase ended: of the last tick before, as lines come in bursts at the change."""
        if at is None:
            return None
        before = [one for one in self._ticks if one.at <= at + 1.0]
        return before[-1] if before else None

    def _kept_lines(self, started: float, ready: float | None) -> Iterator[BaselineLine]:
        host = self.diagnosis.launch.host if self.diagnosis.launch else ""
        name = re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w-])") if len(host) > 1 else None
        for text, seen in self._lines.items():
            at = None if seen.first is None else max(0.0, seen.first - started)
            if at is not None and ready is not None and at > ready + 1.0:
                continue  # requests, no start
            yield BaselineLine(name.sub("#", text) if name else text, seen.role, (_round(at),))

    def _processes(self, launch: Launch) -> Iterator[RoleCount]:
        alive = [launch.members[pid] for pid, one in self.diagnosis.history.tracks.items() if one.gone is None]
        for role in sorted({one.role for one in alive if one.needed and one.start > 0}):
            yield RoleCount(role, sum(one.role == role for one in alive), (self._threads.get(role),))

    def _ports(self, launch: Launch) -> dict[str, int]:
        counts: dict[str, int] = {}
        listening = {
            row.inode
            for row in self.diagnosis.history.sockets
            if row.state == "LISTEN" and row.family.startswith("tcp")
        }
        for pid, member in sorted(launch.members.items()):
            track = self.diagnosis.history.tracks.get(pid)
            mine = {fd.inode for fd in (track.process.fds or {}).values() if fd.kind == "socket"} if track else set()
            if member.needed and mine & listening:
                counts[member.role] = counts.get(member.role, 0) + len(mine & listening)
        return counts


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
