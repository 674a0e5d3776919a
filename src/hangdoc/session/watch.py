"""Follow one start tick by tick until it is ready, has crashed, or is hung; say what happens as it happens."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from .. import __version__
from ..analysis import floors
from ..analysis.diagnosis import Diagnosis
from ..analysis.judge import Judgement
from ..engines import launches
from ..hosts.channel import Channel, ChannelError
from ..model.frozen import replace
from ..model.launch import Launch, Member
from ..model.places import own
from ..model.report import Report
from ..model.sample import Sample
from ..model.watching import Event, Moment
from ..model.words import Phase, Verdict
from . import target
from .cadence import STACKS_AT_ONCE, TICK_S, Cadence, may_listen
from .casefile import CaseWriter
from .look import Look, Options

_DEADLINE_S = 5.0  # of one question
_CASCADE_S = 2.0  # after the first death: for the others to follow, and their last lines to be written
_PENDING_S = 0.1  # beyond the time for which a definite fact must hold
_SERIOUS: tuple[Verdict, ...] = ("suspect", "hung")
_MOVES: tuple[Verdict, ...] = ("progressing", "slow", "ready")
_FINAL: tuple[Verdict, ...] = ("ready", "crashed", "hung")
_EVENTS = 50


class WatchOptions(msgspec.Struct, frozen=True):
    """How long a watch goes on."""

    look: Options
    timeout_s: float | None = None  # None: until the verdict is final
    beyond_hung: bool = False  # a hang does not end it: the command is ours and may still come round
    named: int | None = None  # the process that was named, which may be a wrapper that starts the launch again


class Watch:
    """One watch of one launch through one channel. `run` gives the events of each tick; `report` what is known."""

    def __init__(
        self, channel: Channel, launch: Launch, first: Sample, options: WatchOptions, case: CaseWriter | None = None
    ) -> None:
        self.options = options
        self.channel = channel
        self.look = Look(channel, launch, first, options.look, case)
        self.cadence = Cadence(stacks=options.look.stacks)
        self.judgement = Judgement("undecided", "hint")
        self.retracted: Verdict | None = None
        self.recent: deque[Event] = deque(maxlen=_EVENTS)
        self.phases: dict[Phase, float] = {}  # wall clock of the look that first saw it
        self._said: Verdict | None = None  # the last serious verdict, until it is taken back
        self._told: tuple[object, ...] = ()
        self._ahead = time.monotonic() - first.mono  # of our clock before the host's, which may be another machine
        self._members: dict[int, Member] = {}
        self._ended: set[int] = set()
        self._lost: set[int] = set()  # places of hosts that cannot be reached
        self._engine = ""
        self._crash_at: float | None = None
        self._pending_events: list[Event] = []  # for the next tick

    @property
    def diagnosis(self) -> Diagnosis:
        """What was seen, folded."""
        return self.look.diagnosis

    def run(self, pause: Callable[[float], None] = time.sleep) -> Iterator[list[Event]]:
        """Give the events of each tick until the verdict is final or time is up. `pause` waits between two ticks."""
        started = time.monotonic()
        while True:
            began = time.monotonic()
            self._tick(began)
            yield self._events()
            if self._final(time.monotonic(), started):
                return
            pause(max(0.05, self._next(began) - time.monotonic()))

    def report(self, *, causes: bool = True) -> Report:
        """The report on everything that was seen so far, with the known causes that hold."""
        return replace(self.diagnosis.report(__version__, ended=False, causes=causes), retracted=self.retracted)

    def closing(self) -> Report:
        """The last report: asks what only matters at the end: what those do who were looked at seldom, what loops do, which
        files on stuck stacks were changed, and OOM counters."""
        if self.judgement.verdict == "hung":
            unseen = self._unseen()
            if unseen and self.options.look.stacks:
                self.look.ask(("threads", "stacks"), _DEADLINE_S, (), unseen, unseen)
            self.look.last_questions()
            self.look.glance()
        elif self.judgement.verdict == "crashed":
            # Nobody is left whose descriptors would lead to the log.
            known = tuple(
                log.path for log in self.report(causes=False).logs if log.via in ("file", "tee", "container", "option")
            )
            options = self.look.options
            self.look.options = msgspec.structs.replace(options, logs=tuple(dict.fromkeys((*options.logs, *known))))
            self.look.ask(("processes", "logs", "host"), _DEADLINE_S)
        report = self.diagnosis.report(__version__, ended=False)
        about = replace(report.hangdoc, provisional=False)
        return replace(report, hangdoc=about, retracted=self.retracted)

    def moment(self) -> Moment:
        """What a live screen shows now."""
        moment = self.diagnosis.moment(__version__, self.phases)
        report = replace(moment.report, retracted=self.retracted)
        return replace(moment, report=report, events=[one.text for one in self.recent])

    def _tick(self, now: float) -> None:
        history = self.diagnosis.history
        now -= self._ahead
        needed = self._needed()
        behind = self.judgement.behind.member.pid if self.judgement.behind else None
        pending = [one.member.pid for one in self.judgement.pending]
        phases = {one.phase for one in self.diagnosis.pictures()}
        reached = {*self.phases, *phases}
        self.cadence.came_further(reached, phases)
        plan = self.cadence.plan(
            now,
            history.tracks,
            needed,
            behind,
            pending,
            near=may_listen(self._engine, self.judgement.phase, reached),
            grown=self.diagnosis.grown_at(),
            files=self.diagnosis.files_from(),
        )
        self.look.ask(
            plan.probes, _DEADLINE_S, (), plan.thread_pids, plan.stack_pids, plan.wait_pids, needed, together=True
        )
        history = self.diagnosis.history  # another one when an engine was recognised
        self._ahead = time.monotonic() - history.now
        self.cadence.saw(history.tracks, self._needed(), behind)
        self.judgement = self.diagnosis.judgement()

    def _unseen(self) -> tuple[int, ...]:
        """Living needed members of which no stack tells what they do now."""
        known = self.diagnosis.history.tracks
        tracks = [known[pid] for pid in self._needed() if pid in known and not known[pid].last_stacks]
        return tuple(one.member.pid for one in tracks if _alive(one.process.state, one.gone, one.died))[:STACKS_AT_ONCE]

    def _needed(self) -> tuple[int, ...]:
        launch = self.diagnosis.launch or self.look.launch
        return tuple(one.pid for one in launch.needed)

    def _next(self, began: float) -> float:
        """Instant of the next tick: a definite fact is looked at again as soon as it has held for long enough."""
        due = began + TICK_S
        if not self.judgement.pending:
            return due
        since = [one.since_s for one in self.judgement.pending if one.since_s is not None]
        left = floors.STABLE_S + _PENDING_S - max(since, default=0.0)
        return min(due, began + left) if left > 0 else due

    def _final(self, now: float, started: float) -> bool:
        if self.options.timeout_s is not None and now - started >= self.options.timeout_s:
            return True
        verdict = self.judgement.verdict
        needed = [one for one in self.diagnosis.history.tracks.values() if one.member.needed]
        alive = any(_alive(one.process.state, one.gone) for one in needed)
        if verdict == "crashed" or (needed and not alive):
            if self._crash_at is None:
                self._crash_at = now
            if alive and now - self._crash_at < _CASCADE_S:
                return False
            return not self._restarted()
        self._crash_at = None
        return verdict == "ready" or (verdict == "hung" and not self.options.beyond_hung)

    def _restarted(self) -> bool:
        """Whether a new launch has taken the place of the one that ended; then the watch goes on with it."""
        old = self.diagnosis.launch or self.look.launch
        try:
            sample = target.scan(self.channel, together=True)
            found = target.find(sample)
        except ChannelError:  # the crash is told, whatever becomes of this question
            return False
        above = set(old.wrappers) | ({self.options.named} if self.options.named else set())
        above -= {old.root}
        successors = [
            one
            for one in found
            if one.root != old.root
            and one.engine == old.engine
            and above & {one.root, *one.wrappers, *launches.ancestors(one.root, sample.processes)}
        ]
        if not successors:
            return False
        new = successors[-1]
        self.look = Look(self.channel, new, sample, self.options.look, self.look.case)
        self.cadence = Cadence(stacks=self.options.look.stacks)
        self.phases, self._members, self._ended = {}, {}, set()
        self._crash_at, self._said, self._told = None, None, ()
        self._pending_events = [
            self._event(
                "restart",
                f"{old.engine} was started again: process {target.name_of(new)} in place of {target.name_of(old)}",
                root=own(new.root),
            )
        ]
        return True

    def _event(self, kind: str, text: str, **data: object) -> Event:
        last = self.diagnosis.history.last
        return Event(kind, last.at if last else time.time(), text, data)  # type: ignore[arg-type]

    def _events(self) -> list[Event]:
        events = [*self._pending_events, *self._launch_events(), *self._host_events()]
        events += [*self._member_events(), *self._verdict_events()]
        self._pending_events = []
        self.recent.extend(events)
        return events

    def _launch_events(self) -> Iterator[Event]:
        launch = self.diagnosis.launch
        if launch is None or launch.engine == self._engine:
            return
        known = self._engine
        self._engine = launch.engine
        if launch.engine == "unknown":
            yield self._event(
                "launch",
                f"watching process {target.name_of(launch)}, no known engine so far",
                root=own(launch.root),
                engine="unknown",
            )
            return
        if known:
            self.phases, self._members, self._ended = {}, {}, set()
        port = f", port {launch.port}" if launch.port is not None else ""
        yield self._event(
            "launch",
            f"{launch.engine}, process {target.name_of(launch)}{port}",
            root=own(launch.root),
            engine=launch.engine,
            port=launch.port,
        )

    def _host_events(self) -> Iterator[Event]:
        """A host that drops out, or comes back: its members are not seen meanwhile, which is no end of theirs."""
        history = self.diagnosis.history
        for place, one in enumerate(history.places):
            if (place in history.lost_since) == (place in self._lost):
                continue
            self._lost ^= {place}
            gone = place in self._lost
            words = f"host {one.host} cannot be reached: {one.detail}" if gone else f"host {one.host} is back"
            yield self._event("host", words, host=one.host, change="lost" if gone else "back", reason=one.lost)

    def _member_events(self) -> Iterator[Event]:
        launch, tracks = self.diagnosis.launch, self.diagnosis.history.tracks
        for member in launch.needed if launch else ():
            old = self._members.get(member.pid)
            facts = {
                "host": member.host,
                "pid": own(member.pid),
                "role": member.role,
                "rank": str(member.rank),
                "title": member.title,
            }
            track = tracks.get(member.pid)
            if old is None or old.start != member.start:
                yield self._event("member", f"{member.who} appeared", change="appeared", **facts)
            elif old.label != member.label:
                yield self._event("member", f"{member.where} is now {member.label}", change="title", **facts)
            self._members[member.pid] = member
            if (
                track is not None
                and member.pid not in self._ended
                and not _alive(track.process.state, track.gone, track.died)
            ):
                self._ended.add(member.pid)
                words = f"{member.who} ended"
                yield self._event("member", words, change="ended", status=track.process.exit_code, **facts)

    def _verdict_events(self) -> Iterator[Event]:
        now, last = self.judgement, self.diagnosis.history.last
        wall = last.at if last else time.time()
        if now.phase is not None and now.phase not in self.phases:
            for phase, at in {**self.diagnosis.passed(self.phases), now.phase: wall}.items():
                self.phases[phase] = at
                yield Event("phase", at, f"phase {phase}", {"phase": phase})
        if self._said is not None and now.verdict in _MOVES:
            yield self._event("retracted", f"{self._said} is taken back: {'; '.join(now.reasons)}", verdict=self._said)
            self.retracted, self._said = self._said, None
        culprits = tuple(sorted(one.member.pid for one in now.culprits))
        told = (now.verdict, now.confidence, culprits)
        if told != self._told:
            self._told = told
            yield self._event(
                "verdict",
                self.diagnosis.summary(),
                verdict=now.verdict,
                confidence=now.confidence,
                phase=now.phase,
                culprits=[
                    {
                        "host": one.member.host,
                        "pid": own(one.member.pid),
                        "role": one.member.role,
                        "rank": str(one.member.rank),
                        "mechanism": one.mechanism,
                    }
                    for one in now.culprits
                ],
            )
        if now.verdict in _SERIOUS:
            self._said = now.verdict


def _alive(state: str, gone: float | None, died: float | None = None) -> bool:
    return gone is None and died is None and state not in ("Z", "X")
