"""A diagnosis of one launch: samples are folded in, and at any moment a report comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..engines import launches, load, phases
from ..engines.profile import Profile
from ..model.deep import PAUSING
from ..model.launch import Launch
from ..model.report import Report
from ..model.sample import Sample
from .assemble import assemble
from .collectives import mark_mismatch
from .history import History
from .judge import Judgement, judge
from .logbook import Logbook
from .pictures import picture
from .structure import assume_waits
from .view import Picture, View
from .waits import Edge, edges_of, victims


class Diagnosis:
    """Feed it the samples of one launch in order; `judgement` and `report` answer from what was fed so far.

    `root` is the pid of the launch's root process. Everything is derived from the samples, so that a replayed case
    gives the report that the live look gave.
    """

    def __init__(self, root: int, profiles: Mapping[str, Profile] | None = None) -> None:
        self.root = root
        self._profiles = profiles if profiles is not None else load.profiles()
        self.history = History()
        self._logbook: Logbook | None = None

    @property
    def launch(self) -> Launch | None:
        """The launch as recognised so far, dead members included."""
        return self.history.launch

    def add(self, sample: Sample) -> None:
        """Fold one sample in."""
        if self.history.launch is not None and PAUSING & set(sample.probes):
            self.history.attach(sample)
            return
        found = launches.launch_of(self.root, launches.find(sample, self._profiles), sample)
        if found is None:
            found = self.history.launch or launches.unknown_launch(self.root, sample)
        if found is None:
            return
        if self._logbook is None:
            self._logbook = Logbook(self._profiles[found.engine])
        self.history.add(sample, found)
        launch = self.history.launch or found
        self._logbook.add(sample, launch, launch.version)

    def log_offsets(self) -> dict[str, int]:
        """Where the next look should read each log on."""
        return self._logbook.offsets() if self._logbook else {}

    def pictures(self) -> list[Picture]:
        """What every member that was seen is doing."""
        return self._seen()[1]

    def judgement(self, *, ended: bool = False) -> Judgement:
        """The verdict on what was seen so far; `ended` when no more samples will come."""
        return self._judged(*self._seen(), ended=ended)

    def report(self, version: str, *, mode: str = "live", ended: bool = True) -> Report:
        """The report on what was seen so far. `version` is hangdoc's; without `ended` it is provisional."""
        view, pictures, edges = self._seen()
        judgement = self._judged(view, pictures, edges, ended=ended)
        return assemble(view, pictures, edges, judgement, version, mode, ended=ended)

    @staticmethod
    def _judged(view: View | None, pictures: list[Picture], edges: list[Edge], *, ended: bool) -> Judgement:
        if view is None:
            return Judgement("undecided", "hint", missing=("no sample of the launch",))
        return judge(view, pictures, edges, ended=ended)

    def _seen(self) -> tuple[View | None, list[Picture], list[Edge]]:
        view = self._view()
        if view is None:
            return None, [], []
        found = [picture(view, track) for _, track in sorted(self.history.tracks.items())]
        meanings = {one.member.pid: (one.means,) for one in found}
        raised = phases.lift(view.order, view.launch, {one.member.pid: one.phase for one in found}, meanings)
        found = assume_waits(view.launch, [replace(one, phase=raised[one.member.pid]) for one in found])
        found = mark_mismatch(found, view.profile)
        edges = edges_of(view, found)
        waiting = victims(found, edges)
        return view, [replace(one, victim=one.member.pid in waiting) for one in found], edges

    def _view(self) -> View | None:
        launch = self.history.launch
        if launch is None or self._logbook is None:
            return None
        profile = self._profiles[launch.engine]
        arch = self.history.facts.arch if self.history.facts else ""
        return View(self.history, self._logbook, profile, launch, phases.order(profile, launch), arch or "x86_64")
