"""A diagnosis of one launch: samples are folded in, and at any moment a report comes out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import structs

from ..engines import launches, lines, load, phases
from ..engines.profile import PhaseSpec, Profile
from ..model.deep import PAUSING
from ..model.frozen import replace
from ..model.launch import Launch
from ..model.report import Cause, Report, UndecidedCause
from ..model.sample import Sample
from ..model.watching import Moment
from ..model.words import Phase, Verdict
from . import nodes
from .arrivals import Source, compiled_places
from .assemble import assemble, summary
from .collectives import mark_mismatch
from .history import History, package_version
from .judge import Judgement, judge
from .links import Edge
from .loading import Loads
from .logbook import Logbook
from .memo import Memo
from .nearest import Beside
from .pictures import picture
from .spots import Spots
from .structure import assume_waits
from .timeline import begun, timeline, why_not_more
from .view import Picture, View
from .waits import edges_of, victims

_WELL: tuple[Verdict, ...] = ("progressing", "ready")


class Reasons(Protocol):
    """Known causes, which are held against what was seen. They stand above this part, and so are given to it."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of log lines that they ask for."""

    def rows(
        self, view: View, pictures: Sequence[Picture], edges: Sequence[Edge], judgement: Judgement
    ) -> tuple[list[Cause], list[UndecidedCause]]:
        """The causes that hold, and those for which facts are missing."""


_FRESH_S = 60.0  # files that are younger: more may come


class Diagnosis:
    """Feed it the samples of one launch in order; `judgement` and `report` answer from what was fed so far.

    `root` is the pid of the launch's root process. Everything is derived from the samples, so that a replayed case
    gives the report that the live look gave.
    """

    def __init__(
        self,
        root: int,
        profiles: Mapping[str, Profile] | None = None,
        on_line: Callable[[lines.Line, int | None, float | None, str], None] | None = None,
        reasons: Reasons | None = None,
    ) -> None:
        self.root = root
        self._reasons = reasons
        self._profiles = profiles if profiles is not None else load.profiles()
        self.history = History()
        self.beside: Beside | None = None  # the good starts that this one is held against
        self.unmatched = ""  # why there are none
        self._logbook: Logbook | None = None
        self._loads = Loads()
        self._on_line = on_line
        self._fed = 0  # samples that were taken in, one that only paused somebody too
        self._order: Memo[tuple[PhaseSpec, ...]] = Memo()
        self._launches: Memo[list[Launch]] = Memo(operator.eq)  # that a sample shows
        self._looked: Memo[tuple[View | None, list[Picture], list[Edge]]] = Memo()

    @property
    def logbook(self) -> Logbook | None:
        """What the logs said, None before the launch was recognised."""
        return self._logbook

    def order(self) -> tuple[PhaseSpec, ...]:
        """The phases that this launch goes through."""
        launch = self.history.launch
        if launch is None:
            return ()
        profile = self._profiles[launch.engine]
        return self._order.get((profile, launch.args), lambda: phases.order(profile, launch))

    def version(self) -> str | None:
        """Version of the engine, where arguments or packages told it."""
        launch = self.history.launch
        if launch is None:
            return None
        return launch.version or package_version(self.history, self._profiles[launch.engine])

    @property
    def launch(self) -> Launch | None:
        """The launch as recognised so far, dead members included."""
        return self.history.launch

    def add(self, sample: Sample) -> None:
        """Fold one sample in."""
        self._fed += 1
        if self.history.launch is not None and PAUSING & set(sample.probes):
            self.history.attach(sample)
            return
        every = self._launches.get(launches.telling(sample), lambda: launches.find(sample, self._profiles))
        found = launches.launch_of(self.root, every, sample)
        if found is None:
            found = self.history.launch or launches.unknown_launch(self.root, sample)
        if found is None:
            return
        known = self.history.launch
        if known is not None and known.engine != found.engine:
            # What was named turned out to be an engine (or another one) after an exec: its start is told from here on.
            self.root, self.history, self._logbook, self._loads = found.root, History(), None, Loads()
        if self._logbook is None:
            self._logbook = self._new_logbook(found)
        self.history.add(sample, found)
        if "scan" in sample.probes:
            self.history.others = tuple(one for one in every if one is not found and one.root not in found.members)
        launch = self.history.launch or found
        self._logbook.add(sample, launch, launch.version)
        ids = tuple(spec.id for spec in self.order())
        self._loads.add(launch, self.history, self._logbook, ids, sample)

    def read_log(self, launch: Launch, sample: Sample) -> None:
        """Take in a log of a launch of which nothing else is left."""
        self._fed += 1
        self._logbook = self._logbook or self._new_logbook(launch)
        self.history.add(sample, launch)
        self._logbook.add(sample, launch, launch.version)

    def _new_logbook(self, launch: Launch) -> Logbook:
        reasons = self._reasons
        spots = Spots(lambda: reasons.patterns if reasons is not None else ())
        return Logbook(self._profiles[launch.engine], listener=self._on_line, spots=spots)

    def log_offsets(self) -> dict[str, int]:
        """Where the next look should read each log on."""
        return self._logbook.offsets() if self._logbook else {}

    def grown_at(self) -> float | None:
        """Monotonic instant at which a log was last seen to grow; of logs that never did, of the first look."""
        first = self.history.first
        if self._logbook is None or not self._logbook.states or first is None:
            return None
        return self._logbook.grew_at() or first.mono

    def files_from(self) -> Source | None:
        """Where files came from when file systems were last looked at."""
        if self._loads.download.points:
            return "download"
        last = self.history.last.at if self.history.last else 0.0
        fresh = any(last - (one.newest or 0.0) < _FRESH_S for one in compiled_places(self.history.storage))
        return "compiler" if fresh else None

    def pictures(self) -> list[Picture]:
        """What every member that was seen is doing."""
        return self._seen()[1]

    def judgement(self, *, ended: bool = False) -> Judgement:
        """The verdict on what was seen so far; `ended` when no more samples will come."""
        return self._judged(*self._seen(), ended=ended)

    def summary(self) -> str:
        """The sentence of a provisional report, without all the rest of it."""
        view, pictures, edges = self._seen()
        return summary(view, self._judged(view, pictures, edges, ended=False), pictures)

    def report(self, version: str, *, mode: str = "live", ended: bool = True, causes: bool = True) -> Report:
        """The report on what was seen so far. `version` is hangdoc's; without `ended` it is provisional. To hold all
        `causes` against it takes longer than all else."""
        view, pictures, edges = self._seen()
        judgement = self._judged(view, pictures, edges, ended=ended)
        report = assemble(view, pictures, edges, judgement, version, mode, ended=ended)
        return self._told(view, pictures, edges, judgement, report) if causes else report

    @staticmethod
    def _judged(view: View | None, pictures: list[Picture], edges: list[Edge], *, ended: bool) -> Judgement:
        if view is None:
            return Judgement("undecided", "hint", missing=("no sample of the launch",))
        return judge(view, pictures, edges, ended=ended)

    def _seen(self) -> tuple[View | None, list[Picture], list[Edge]]:
        return self._looked.get((self._fed, self.beside, self.unmatched), self._see)

    def _see(self) -> tuple[View | None, list[Picture], list[Edge]]:
        view = self.view()
        if view is None:
            return None, [], []
        found = [picture(view, track) for _, track in sorted(self.history.tracks.items())]
        meanings = {one.member.pid: (one.means,) for one in found}
        raised = phases.lift(view.order, view.launch, {one.member.pid: one.phase for one in found}, meanings)
        found = assume_waits(view.launch, [structs.replace(one, phase=raised[one.member.pid]) for one in found])
        found = nodes.mark(view, mark_mismatch(found, view.profile))
        edges = edges_of(view, found)
        waiting = victims(found, edges)
        return view, [structs.replace(one, victim=one.member.pid in waiting) for one in found], edges

    def passed(self, seen: Mapping[Phase, float]) -> dict[Phase, float]:
        """Phases that the launch went through since those that were `seen`, without the one that it is in, by the lines that
        mark them: phase -> wall clock. A phase may be over before a tick finds the launch in it."""
        view, judgement = self.view(), self.judgement()
        if view is None or judgement.phase not in view.phases:
            return {}
        last = max((view.phases.index(phase) for phase in seen if phase in view.phases), default=len(view.phases))
        between = view.phases[last + 1 : view.phases.index(judgement.phase)]
        return {phase: at for phase, at in begun(view, {}).items() if phase in between}

    def moment(self, version: str, seen: Mapping[Phase, float]) -> Moment:
        """The report so far with the phases and their times. `seen`: phase -> wall clock of the look that first saw it."""
        view, pictures, edges = self._seen()
        judgement = self._judged(view, pictures, edges, ended=False)
        report = assemble(view, pictures, edges, judgement, version, "live", ended=False, whole=False)
        if judgement.verdict not in _WELL:
            report = self._told(view, pictures, edges, judgement, report)
        if view is None:
            return Moment(report)
        return Moment(report, timeline(view, judgement, seen), why_not_more=why_not_more(view, judgement))

    def _told(
        self, view: View | None, pictures: list[Picture], edges: list[Edge], judgement: Judgement, report: Report
    ) -> Report:
        """The report with the known causes in it."""
        if view is None or self._reasons is None:
            return report
        causes, undecided = self._reasons.rows(view, pictures, edges, judgement)
        return replace(report, causes=causes, undecided=[*report.undecided, *undecided])

    def view(self) -> View | None:
        """All that judging needs, None before the launch was recognised."""
        launch = self.history.launch
        if launch is None or self._logbook is None:
            return None
        profile = self._profiles[launch.engine]
        facts = self.history.root_facts
        arch = (facts.arch if facts else "") or "x86_64"
        return View(
            self.history, self._logbook, profile, launch, self.order(), arch, self.beside, self.unmatched, self._loads
        )  # fmt: skip
