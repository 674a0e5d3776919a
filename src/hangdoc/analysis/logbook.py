"""What the logs say: marks per writer, lines seen before, n of m, last lines, the first traceback."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from ..engines import credit, lines
from ..engines.profile import Mark, Profile
from ..model.launch import Launch, Member
from ..model.places import place_of
from ..model.sample import Log, Sample
from ..model.words import Phase
from .pace import Pace, read_bar
from .spots import Spot, Spots
from .stamps import filled, zone
from .templates import template
from .tracebacks import Tracebacks

_TAIL = 60
_PACES = 32  # progress bars followed for each writer
_FATAL = 100  # lines kept that announce the end
_LOOKED_AT = 64  # lines of one template that are held against what is asked for: later ones say the same
_SAME = 4  # times that one mark is kept for a writer: a server that runs for hours repeats some
_BARS = 200  # progress bars per writer
_TEMPLATES = 20_000  # different lines remembered: more than any start prints, so the bound only serves hostile logs


class Written(msgspec.Struct):
    """What one writer, a member or an unknown one, has written so far."""

    marks: list[tuple[Mark, float | None]] = []  # with the time its line carries
    last_line: str = ""
    last_line_at: float | None = None  # wall clock by the line's own time, else when it was seen to be new
    last_new: float | None = None  # monotonic instant at which a line of a new template or a mark was seen
    last_bar: float | None = None  # monotonic instant at which a progress bar was seen to have gone on
    new_at: float | None = None  # wall clock of the last line that was new, also of those from before the look
    bar_at: float | None = None  # the same of the last progress bar that went on
    bars: dict[str, lines.Bar] = {}  # template of a progress bar -> n of m
    paces: dict[str, Pace] = {}  # the same template -> how fast it goes
    marked: dict[Phase, float] = {}  # phase -> monotonic instant of the look that read a mark
    seen_pid: bool = False  # its pid stood in a prefix

    def phase(self, phases: tuple[Phase, ...]) -> Phase | None:
        """The furthest phase of this start that a mark put it into."""
        reached = [mark.phase for mark, _ in self.marks if mark.phase in phases]
        return max(reached, key=phases.index) if reached else None

    def since(self, phase: Phase) -> float | None:
        """Wall clock at which the first mark of `phase` was written, where its line carries a time."""
        return next((at for mark, at in self.marks if mark.phase == phase and at is not None), None)


class LogState(msgspec.Struct):
    """One log file."""

    log: Log
    next: int = 0  # offset that is read next
    pending: str = ""
    drawn: bool = False  # what was read last is a progress bar whose line has not ended
    tail: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=_TAIL))
    grew_at: float | None = None  # monotonic instant at which it was seen to grow
    skew: float | None = None  # seconds that the times in its lines are behind the wall clock of the host


class Logbook(msgspec.Struct):
    """All logs of a launch, read incrementally."""

    profile: Profile
    by_member: dict[int, Written] = {}
    others: Written = msgspec.field(default_factory=Written)  # lines that name no member
    states: dict[str, LogState] = {}
    fatal: list[str] = []
    tracebacks: Tracebacks = msgspec.field(default_factory=Tracebacks)
    chatter_at: float | None = None  # monotonic instant of the last line that only says "still waiting"
    # Told of every line: the line, pid of its writer, wall clock (its own time, else that of the next one), template.
    listener: Callable[[lines.Line, int | None, float | None, str], None] | None = None
    spots: Spots = msgspec.field(default_factory=lambda: Spots(tuple))  # lines that somebody may ask for
    caches: set[str] = set()  # "cold", "warm": what lines say of caches of compiled things
    gaps: bool = False  # some text of a log was never read
    nspids: dict[int, dict[int, int]] = {}  # place -> pid in its own namespace -> pid
    traceback_place: int = 0  # of the host on whose log the first traceback stands
    _templates: dict[str, int] = {}  # template -> lines of it, counted up to `_LOOKED_AT`

    @property
    def templates(self) -> frozenset[str]:
        """Templates of the lines of this launch that were read."""
        return frozenset(self._templates)

    @property
    def traceback(self) -> lines.Traceback | None:
        """The first traceback of all."""
        return self.tracebacks.first

    def offsets(self) -> dict[str, int]:
        """Where the next look should read on, by path and inode: after a rotation the new file is read from its start."""
        return {
            path if state.log.inode is None else f"{path}#{state.log.inode}": state.next
            for path, state in self.states.items()
        }

    def news(self, member: Member) -> float | None:
        """Monotonic instant of the last new line that is, or may be, of this member: one that no prefix ever named may
        have written those that name nobody."""
        own = self.by_member.get(member.pid)
        if own is None:
            return self.others.last_new
        # A bar that names nobody, as tqdm draws them, may be of anybody.
        return max((at for at in (own.last_new, self.others.last_bar) if at is not None), default=None)

    def news_at(self, member: Member) -> float | None:
        """The same as wall clock, by the times of the lines: also of news from before the first look."""
        own = self.by_member.get(member.pid)
        times = [self.others.new_at] if own is None else [own.new_at, self.others.bar_at]
        return max((at for at in times if at is not None), default=None)

    def grew_at(self) -> float | None:
        """Monotonic instant at which any log was last seen to grow."""
        return max((state.grew_at for state in self.states.values() if state.grew_at is not None), default=None)

    def add(self, sample: Sample, launch: Launch, version: str | None) -> None:
        """Read what is new in the sample's logs."""
        for log in sample.logs:
            state = self.states.get(log.path)
            first = state is None
            if state is None:
                state = self.states[log.path] = LogState(log)
            elif log.size is not None and (log.size < state.next or log.inode != state.log.inode):
                state.next, state.pending, state.drawn = (
                    0,
                    "",
                    False,
                )  # rotated or truncated: what follows is read from its start
            state.log = log
            self._read(state, sample, launch, version, first=first)

    def _read(self, state: LogState, sample: Sample, launch: Launch, version: str | None, *, first: bool) -> None:
        fresh: list[str] = []
        for chunk in state.log.chunks:
            if chunk.offset != state.next:
                state.pending, state.drawn, self.gaps = "", False, True
            text = chunk.text.lstrip("\r\n") if state.drawn else state.pending + chunk.text
            end = lines.whole(text)
            state.pending = text[end:][-4096:]
            state.drawn = text[:end].endswith("]") if text else state.drawn
            fresh += lines.split(text[:end])
            state.next = chunk.offset + (chunk.size or len(chunk.text.encode()))
        if not fresh:
            return
        if not first:
            state.grew_at = sample.mono
        reader = lines.reader(self.profile, version)
        year = _year(sample.at)
        times = [lines.timestamp(line, year) for line in fresh]
        place = state.log.place
        began = _began(launch, place)
        started = sample.at - (sample.boot - began) if began is not None else None
        ahead = sample.places[place].wall_ahead if place < len(sample.places) else 0.0
        if state.skew is None and state.log.mtime is not None:  # its writer's clock is that of its own host
            known = zone(times, state.log.mtime + ahead, started + ahead if started is not None else None)
            state.skew = known - ahead if known is not None else None
        walls = filled([None if one is None else one + (state.skew or 0) for one in times], state.log.mtime)
        self.nspids[place] = {
            one.nspid[-1]: pid for pid, one in sample.processes.items() if len(one.nspid) > 1 and place_of(pid) == place
        }
        mine = []
        for text, at in zip(fresh, walls, strict=True):
            if started is not None and at is not None and at < started - 5:
                continue  # an earlier start wrote into the same file
            mine.append(text)
            read = reader.read(text)
            pid = credit.member_of(read, launch, self.nspids[place], place)
            self._line(read, pid, at, None if first else sample.mono, sample.mono)
        state.tail.extend(mine)
        before = self.tracebacks.first
        self.tracebacks.read(mine, self.profile)
        if self.tracebacks.first is not before:
            self.traceback_place = place

    def _line(self, line: lines.Line, pid: int | None, at: float | None, seen: float | None, now: float) -> None:
        written = self.others if pid is None else self.by_member.setdefault(pid, Written())
        written.seen_pid = written.seen_pid or line.writer.pid is not None
        if line.message.strip():
            written.last_line, written.last_line_at = line.text, at if at is not None else written.last_line_at
        shape = template(line.message)
        if self.listener is not None:
            self.listener(line, pid, at, shape)
        self.caches.update(kind for kind, told in (("cold", line.cold), ("warm", line.warm)) if told)
        if line.fatal and len(self.fatal) < _FATAL:
            self.fatal.append(line.text)
        times = self._templates.get(shape, 0)
        first = times == 0 and bool(shape)  # a blank line is no news
        new = first or (line.mark is not None and line.mark.phase not in written.marked)
        if line.mark is not None and sum(one is line.mark for one, _ in written.marks) < _SAME:
            written.marks.append((line.mark, at))
            written.marked.setdefault(line.mark.phase, now)
        if times < _LOOKED_AT:
            self.spots.add(Spot(line.text, pid))
            if not first or len(self._templates) < _TEMPLATES:
                self._templates[shape] = times + 1
        if line.chatter:
            self.chatter_at = seen
            return
        if line.bar is not None:
            new = line.bar.done > written.bars.get(shape, lines.Bar(-1, 0)).done
            if shape in written.bars or len(written.bars) < _BARS:
                written.bars[shape] = line.bar
            if shape in written.paces or len(written.paces) < _PACES:
                read_bar(written.paces.setdefault(shape, Pace()), line.text, line.bar, at)
            if new:
                written.last_bar, written.bar_at = seen, at
        if new:
            written.new_at = at if at is not None else written.new_at
            written.last_new = seen if seen is not None else written.last_new


def _began(launch: Launch, place: int) -> float | None:
    """Seconds since boot at which the node that writes logs on a host was started, else the launch."""
    roots = {one.root for one in launch.nodes if place_of(one.root) == place} or {launch.root}
    return min((launch.members[pid].start for pid in roots if pid in launch.members), default=None)


def _year(at: float) -> int:
    """The year of a wall clock time, which vLLM leaves out of its lines."""
    return 1970 + int(at // (365.2425 * 86400))


def writer_of_traceback(book: Logbook, launch: Launch) -> Member | None:
    """The member that wrote the first traceback, where its prefix tells."""
    first = book.traceback
    if first is None:
        return None
    line = lines.Line("", first.writer, "", None, None, chatter=False, fatal=False)
    place = book.traceback_place
    return launch.members.get(credit.member_of(line, launch, book.nspids.get(place), place) or -1)
