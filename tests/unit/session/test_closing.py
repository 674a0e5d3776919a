"""The last report of a watch, against an agent that answers out of a small world, a second later with each question."""

from __future__ import annotations

from dataclasses import replace
from time import gmtime, strftime
from typing import Any

import pytest

from hangdoc.engines import launches, load
from hangdoc.model.ask import Ask
from hangdoc.model.report import Cause, UndecidedCause
from hangdoc.model.sample import FutexWait, Sample
from hangdoc.rules import load as load_causes
from hangdoc.rules.known import Known
from hangdoc.session.look import Options
from hangdoc.session.watch import Watch, WatchOptions

from ..analysis.world import BOOT, HOOK, LOAD, ROOT, TP0, TP1, WALL, World, waiting


class Answers:
    """A channel. The launcher polls at another place at each look, so that an older stack of it says nothing."""

    host = "box"

    def __init__(self) -> None:
        self.world, self.at = World(), 0
        self.glanced: list[tuple[int, ...]] = []

    def ask(self, ask: Ask) -> Sample:
        """What the agent would tell: a rank that loads for ten seconds, and then waits for itself."""
        self.at += 1
        if "glance" in ask.probes:
            self.glanced.append(ask.deep_pids)
        self.world.bend(ROOT, thread=waiting(ROOT, pc=self.at, slices=self.at))
        if self.at < 10:
            self.world.bend(TP1, LOAD, rss=(self.at << 23) + (1 << 30), thread=waiting(TP1, slices=self.at))
        else:
            self.world.bend(TP1, LOAD, thread=waiting(TP1, syscall=202, futex=FutexWait(1, "mutex", 2, TP1)))
        return told(self.world.sample(float(self.at)), ask)

    def close(self) -> None:
        """Nothing to end."""


def told(sample: Sample, ask: Ask) -> Sample:
    """The sample with what was asked for."""
    rows = {
        pid: replace(
            one,
            threads=one.threads if "threads" in ask.probes and pid in ask.thread_pids else None,
            stacks=one.stacks if "stacks" in ask.probes and pid in ask.stack_pids else None,
        )
        for pid, one in sample.processes.items()
    }
    return replace(sample, probes=ask.probes, processes=rows)


class Counted:
    """The known causes, and how often they were weighed."""

    def __init__(self) -> None:
        self.known, self.times = Known(load_causes.catalogue()), 0
        self.patterns = self.known.patterns

    def rows(self, *args: Any) -> tuple[list[Cause], list[UndecidedCause]]:
        """Weigh them."""
        self.times += 1
        return self.known.rows(*args)


def watched(answers: Answers, *, stacks: bool = True, reasons: Counted | None = None) -> Watch:
    """A watch of it until it is called hung."""
    first = told(answers.world.sample(0.0), Ask(0, ("scan",)))
    (launch,) = launches.find(first, load.profiles())
    watch = Watch(answers, launch, first, WatchOptions(Options(stacks=stacks, reasons=reasons), timeout_s=5.0))
    for events in watch.run(pause=lambda _: None):
        said = [one.text for one in events if one.event == "verdict"]
        assert said in ([], [watch.report(causes=False).summary])
    assert watch.judgement.verdict == "hung"
    return watch


class Unread(Answers):
    """The launcher's stack could not be read when it was asked for first."""

    def ask(self, ask: Ask) -> Sample:
        """As before, without that stack."""
        if self.at < 12:
            ask = replace(ask, stack_pids=tuple(pid for pid in ask.stack_pids if pid != ROOT))
        return super().ask(ask)


def test_a_victim_of_which_no_stack_is_known_is_looked_at_once_more() -> None:
    watch = watched(Unread())
    before = {one.pid: one.mechanism for one in watch.report().ranks}
    after = {one.pid: one.mechanism for one in watch.closing().ranks}
    assert (before[ROOT], after[ROOT]) == ("unknown", "pipe-read")
    assert (before[TP0], after[TP0]) == ("collective", "collective")


@pytest.mark.parametrize("gone", [ROOT, TP0])
def test_without_stacks_nobody_is(gone: int) -> None:
    """The near miss: `--stacks none` holds to the end."""
    assert {one.pid: one.mechanism for one in watched(Answers(), stacks=False).closing().ranks}[gone] == "unknown"


def test_causes_are_weighed_for_a_report_that_somebody_gets() -> None:
    reasons = Counted()
    watch = watched(Answers(), reasons=reasons)
    assert reasons.times == 0
    assert [one.id for one in watch.closing().causes] == ["mutex-held-by-itself"]
    assert reasons.times == 1


class Asleep(Answers):
    """A rank that wakes and sleeps again in one place, in a phase that began long ago."""

    def __init__(self) -> None:
        super().__init__()
        at = strftime("%Y-%m-%d %H:%M:%S", gmtime(WALL - 3600))
        self.world.log, self.world.mtime = f"[{at} TP1] Load weight begin. avail mem=1.5 GB\n", WALL - 3600
        for pid in self.world.processes:
            self.world.bend(pid, start=BOOT - 3700)

    def ask(self, ask: Ask) -> Sample:
        """What the agent would tell."""
        sample = super().ask(ask)
        thread = waiting(TP1, syscall=230, args=(1, 0, 7, 0, 0, 0), slices=self.at)
        self.world.bend(TP1, (HOOK, *LOAD), rss=1 << 30, thread=thread)
        return replace(told(self.world.sample(float(self.at)), ask), logs=sample.logs)


def test_what_a_loop_does_is_looked_at_closely_once_it_is_called_a_hang() -> None:
    """As `diagnose` does. The near miss: nobody looks closely at one that waits for a mutex."""
    answers = Asleep()
    watch = watched(answers)
    assert watch.judgement.culprits[0].mechanism == "sleep-loop"
    watch.closing()
    assert answers.glanced == [(TP1,)]
    other = Answers()
    watched(other).closing()
    assert not other.glanced
