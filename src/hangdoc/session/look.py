"""One look at a launch: harmless reading first, then stacks, tick by tick until the verdict holds or time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import msgspec

from ..analysis.closer import LOOPS
from ..analysis.diagnosis import Diagnosis, Reasons
from ..analysis.judge import Judgement
from ..engines import load
from ..engines.launches import ancestors
from ..hosts.channel import Channel
from ..hosts.tool import find_pyspy
from ..model.ask import Ask, HealthAsk
from ..model.frozen import replace
from ..model.launch import Launch
from ..model.sample import Sample
from .comparing import Baselines

LOOK_S = 15.5  # a look lasts at most so long
SLOW_EVERY_S = (
    5.0  # sockets, descriptors, host facts and health: at most once in 5 s (SGLang's health check runs a token)
)
_GLANCE_S = 2.5  # for many quick looks at what a loop does
_OTHERS = 256  # processes of other launches that a case keeps
_GLANCED = 8  # members that are looked at so
_ALWAYS = ("processes", "threads", "logs")
_SLOWLY = ("fds", "sockets", "host")
_SELDOM = ("kernel", "storage", "network", "machine")
SELDOM_EVERY_S = 30.0  # what changes slowly, or costs tens of milliseconds
_TELLING = frozenset({"scan", "fds", "host", "packages"})  # probes that tell of the configuration


class Sink(Protocol):
    """Where the samples of a look go, too: a case, a recorder."""

    def add(self, sample: Sample) -> None:
        """Take one sample; OSError ends it."""


class Options(msgspec.Struct, frozen=True):
    """What a look may do."""

    stacks: bool = True
    logs: tuple[str, ...] = ()
    timeout_s: float = 60.0
    baselines: Baselines | None = None  # the good starts to hold it against
    reasons: Reasons | None = None  # the known causes to hold it against


class Look:
    """Looks at one launch through one channel and feeds a Diagnosis; a case is written when one is given."""

    def __init__(
        self, channel: Channel, launch: Launch, first: Sample, options: Options, case: Sink | None = None
    ) -> None:
        self.channel = channel
        self.launch = launch
        self.options = options
        self.diagnosis = Diagnosis(launch.root, reasons=options.reasons)
        self.case = case
        self.case_error: OSError | None = None
        self._id = 0
        self._slow_at = float("-inf")
        self._seldom_at = float("-inf")
        self._environ_asked = False
        self._pyspy = find_pyspy()
        self._keep(first)

    def run(self) -> Iterator[Judgement]:
        """Look until the verdict holds; after each tick give the verdict so far."""
        started = time.monotonic()
        end = started + min(LOOK_S, self.options.timeout_s)
        while True:
            tick = time.monotonic()
            self.tick(stacks=self._id > 0, budget_s=max(1.0, end - tick + 3.0))
            judgement = self.diagnosis.judgement()
            yield judgement
            if self._settled(judgement) or time.monotonic() >= end:
                break
            # The second tick follows at once: a first screen needs two looks, and stacks need a state reading before them.
            pause = 0.3 if self._id == 1 else 1.0
            time.sleep(max(0.05, min(pause - (time.monotonic() - tick), end - time.monotonic())))
        self.last_questions()
        if started + self.options.timeout_s - time.monotonic() > _GLANCE_S:
            self.glance()

    def closer(self, probe: str, pids: tuple[int, ...], deadline_s: float) -> None:
        """Look at a few members by `glance`, `native` or `strace`; the last two pause them."""
        self._id += 1
        # without `processes`: that members are missing from this sample does not mean that they are gone
        question = Ask(self._id, (probe,), pids=pids, deep_pids=pids, pyspy=self._pyspy, deadline_s=deadline_s)
        self._keep(self.channel.ask(question))

    def glance(self) -> None:
        """Many quick looks at what the loops of the culprits do."""
        judgement = self.diagnosis.judgement(ended=True)
        open_ = [judgement.behind] if judgement.verdict == "undecided" and judgement.behind else []
        loops = [one.member.pid for one in (*judgement.culprits, *open_) if one.mechanism in LOOPS]
        if loops:
            self.closer("glance", tuple(loops[:_GLANCED]), _GLANCE_S)

    def _settled(self, judgement: Judgement) -> bool:
        if judgement.verdict in ("crashed", "ready"):
            return self._id > 1
        if judgement.verdict == "hung":
            return judgement.confidence == "certain"
        window = self.diagnosis.history.window
        return judgement.verdict in ("progressing", "slow") and not judgement.pending and window >= 2.0

    def tick(self, *, stacks: bool, budget_s: float, all_probes: bool = False) -> None:
        """One tick: the probes that are due, or all of them."""
        now = time.monotonic()
        probes = list(_ALWAYS)
        if all_probes or now - self._slow_at >= SLOW_EVERY_S:
            self._slow_at = now
            probes += [*_SLOWLY, "health"]
        if self._id > 0 and now - self._seldom_at >= SELDOM_EVERY_S:  # not in the first tick: a screen waits for it
            self._seldom_at = now
            probes += _SELDOM
        if not self._environ_asked:
            self._environ_asked = True
            probes += ["environ", "packages"]  # the version, too: it says which good starts are comparable
        if stacks and self.options.stacks:
            probes.append("stacks")
        self.ask(tuple(probes), min(budget_s, 10.0))

    def ask(
        self,
        probes: tuple[str, ...],
        deadline_s: float,
        check_files: tuple[str, ...] = (),
        thread_pids: tuple[int, ...] = (),
        stack_pids: tuple[int, ...] | None = None,
        wait_pids: tuple[int, ...] | None = None,
        needed: tuple[int, ...] | None = None,
        *,
        together: bool = False,
    ) -> None:
        """Ask one question about the launch and take the answer in. `stack_pids`: None is every needed member that lives;
        `needed`: of all others, only those that spent CPU time are read anew; `together`: it is one of many."""
        self._id += 1
        launch = self.diagnosis.launch or self.launch
        gone = {pid for pid, track in self.diagnosis.history.tracks.items() if track.gone is not None}
        health = []
        if "health" in probes and launch.port is not None and launch.head:  # other nodes answer 200 whatever happens
            health = [HealthAsk(launch.root, launch.port, load.profiles()[launch.engine].health)]
        sample = self.channel.ask(
            Ask(
                self._id,
                probes,
                pids=tuple(pid for pid in launch.members if pid not in gone),
                stack_pids=(
                    tuple(one.pid for one in launch.needed if one.pid not in gone) if stack_pids is None else stack_pids
                ),
                needed=needed,
                thread_pids=thread_pids,
                wait_pids=wait_pids,
                logs=self.options.logs,
                log_offsets=self.diagnosis.log_offsets(),
                health=health,
                check_files=check_files,
                pyspy=self._pyspy,
                deadline_s=deadline_s,
                together=together,
            )
        )
        self._keep(sample)

    def last_questions(self) -> None:
        """What only matters once someone is suspected: which files on the stuck stacks were changed since installation."""
        judgement = self.diagnosis.judgement(ended=True)
        files = {
            frame.file
            for one in judgement.culprits
            if one.stack
            for frame in one.stack.frames
            if frame.file.startswith("/")
        }
        crashed = judgement.verdict == "crashed"  # counters of the OOM killer tell after the death
        self.ask(("packages", "host") if crashed else ("packages",), 5.0, tuple(sorted(files)[:64]))

    def _keep(self, sample: Sample) -> None:
        """Feed the diagnosis; it and a case get only what belongs to the launch."""
        others = tuple(one for one in sample.unseen if one.probe == "scan")  # of other people's processes
        sample = replace(sample, unseen=[one for one in sample.unseen if one not in others])
        self.diagnosis.add(sample)
        if self.options.baselines is not None and _TELLING & set(sample.probes):
            self.options.baselines.attach(self.diagnosis)
        launch = self.diagnosis.launch
        if self.case is None or launch is None:
            return
        # With what was named, whatever it is: in the sample in which an engine turns up below it, it shows whose that is.
        mine = {*launch.members, *launch.wrappers, self.launch.root}
        mine.update(ancestors(launch.root, sample.processes))
        others_here = self.diagnosis.history.others if "scan" in sample.probes else None
        mine.update([pid for one in others_here or () for pid in one.members][:_OTHERS])
        trimmed = replace(sample, processes={pid: one for pid, one in sample.processes.items() if pid in mine})
        try:
            self.case.add(trimmed)
        except OSError as error:
            self.case_error, self.case = error, None
