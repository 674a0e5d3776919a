"""Which recorded start is nearest to this one, in what they differ, and what that means for the expectation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..engines.argv import number
from ..engines.phases import exists
from ..engines.profile import Profile
from ..model.baseline import Baseline, Configuration
from ..model.words import Phase
from . import quantiles
from .runs import with_caches, with_ranks

_BY_BYTES: tuple[Phase, ...] = ("download", "weight-load")  # whose duration follows the number of bytes
_BY_RANK: tuple[Phase, ...] = ("weight-load", "post-load")  # whose duration follows what each rank holds of them
_RANKS = "tensor-parallel-size"
_HARDLY = 0.05  # part by which two sizes of a checkpoint may differ and be the same

_SIZES = {
    "pipeline-parallel-size": "pipeline parallel size",
    "data-parallel-size": "data parallel size",
}


class Difference(msgspec.Struct, frozen=True):
    """One difference between two configurations."""

    words: str  # what differs and what it means
    apart: bool  # durations of one say nothing about the other
    weight: int
    known: bool = True  # False: it is only not known whether they are the same


class Beside(msgspec.Struct, frozen=True):
    """The good starts that a launch is held against."""

    baseline: Baseline
    differences: tuple[Difference, ...] = ()
    scale: float = 1.0  # how much longer things may take here, where a difference states why
    weights: float = 1.0  # how many times as many bytes the checkpoint has
    held: float = 1.0  # how many times as much of it each rank holds, where that is more

    @property
    def comparable(self) -> bool:
        """Whether its durations may decide that this start is overdue."""
        return not any(one.apart for one in self.differences)

    @property
    def alike(self) -> bool:
        """Whether nothing is known to differ. Else its durations are trusted less: the bound is the wider one."""
        return not any(one.known for one in self.differences)

    def overdue_after(self, took: Sequence[float], phase: Phase | None = None, slower: float = 1.0) -> float:
        """Seconds after which a phase, or the start as a whole, that took so long in the good starts is overdue here.
        `slower`: how many times as long as in those all before this phase took."""
        if phase is not None:
            return quantiles.overdue_after(took, max(self.scale, slower) * self._by_weights(phase), alike=self.alike)
        longer = sum(max(0.0, self._by_weights(row.id) - 1.0) * (row.p95_s or 0.0) for row in self.baseline.phases)
        return quantiles.overdue_after([one + longer for one in took], self.scale, alike=self.alike)

    def _by_weights(self, phase: Phase) -> float:
        """How many times as long a phase may take for the weights that are loaded here."""
        return (self.weights if phase in _BY_BYTES else 1.0) * (self.held if phase in _BY_RANK else 1.0)

    @property
    def distance(self) -> int:
        """Small is near."""
        return sum(one.weight for one in self.differences)


def hold(baseline: Baseline, now: Configuration, profile: Profile) -> Beside:
    """This configuration held against a baseline's."""
    then = baseline.configuration
    if then.engine != now.engine:
        words = f"it is a start of {then.engine}, this one is {now.engine}: nothing can be compared"
        return Beside(baseline, (Difference(words, apart=True, weight=1000),))
    ranks, ranks_then = _ranks(now), _ranks(then)
    baseline = with_ranks(with_caches(baseline, now.caches), ranks_then, ranks)
    then = baseline.configuration
    found = [
        *_identity(then, now),
        *_of_ranks(then, now),
        *_hardware(then, now),
        *_caches(then, now),
        *_weights(then, now),
        *_phases(then, now, profile),
        *_arguments(then, now),
    ]
    return Beside(baseline, tuple(found), _scale(then, now), _ratio(then, now), max(1.0, ranks_then / ranks))


def order(held: Beside) -> tuple[object, ...]:
    """By this the nearest comes first; a recorded one before a published one, more runs before fewer."""
    baseline = held.baseline
    kind = baseline.provenance.kind
    return not held.comparable, held.distance, kind != "recorded", -len(baseline.runs), baseline.name


def _identity(then: Configuration, now: Configuration) -> Iterable[Difference]:
    if not _same_model(then.model, now.model):
        yield Difference(
            f"model {now.model or '?'} here, {then.model or '?'} then: durations say nothing", apart=True, weight=50
        )
    for name, words in _SIZES.items():
        here, there = now.args.get(name, "1"), then.args.get(name, "1")
        if here != there:
            yield Difference(f"{words} {here} here, {there} then: durations say nothing", apart=True, weight=20)
    if then.hosts != now.hosts:
        yield Difference(f"{now.hosts} hosts here, {then.hosts} then: durations say nothing", apart=True, weight=20)
    if then.version and now.version and then.version != now.version:
        minor = then.version.split(".")[:2] != now.version.split(".")[:2]
        yield Difference(
            f"version {now.version} here, {then.version} then: lines and phases may differ",
            apart=False,
            weight=4 if minor else 1,
        )
    elif not now.version or not then.version:
        yield Difference("version not known on both sides", apart=False, weight=1, known=False)


def _ranks(one: Configuration) -> int:
    return max(1, number(one.args, _RANKS, 1))


def _of_ranks(then: Configuration, now: Configuration) -> Iterable[Difference]:
    here, there = _ranks(now), _ranks(then)
    if here == there:
        return
    means = "the same phases"
    if here < there:
        means += f"; each rank holds {there / here:.1f} times as much: loading it may take up to so many times as long"
    if _scale(then, now) > 1.0:
        means += f"; on these CPUs all of it may take up to {_scale(then, now):.1f} times as long"
    if there == 1:
        means += "; how long ranks take to meet is not known from one"
    if here == 1:
        means += "; lines are not compared, as one rank prints fewer"
    yield Difference(f"tensor parallel size {here} here, {there} then: {means}", apart=False, weight=8)


def _same_model(one: str | None, other: str | None) -> bool:
    """Whether two names may mean one model: a local copy has lost the organisation in front of the name."""
    if one is None or other is None or one == other:
        return one == other
    short = ("/" not in one) or ("/" not in other)
    return short and one.rpartition("/")[2].lower() == other.rpartition("/")[2].lower()


def _hardware(then: Configuration, now: Configuration) -> Iterable[Difference]:
    here, there = now.hardware, then.hardware
    cpu = ("none", "none")
    kinds = (here.accelerator, there.accelerator)
    if all(kinds) and kinds != cpu and "none" in kinds:
        yield Difference(
            f"accelerator {here.accelerator} here, {there.accelerator} then: durations say nothing",
            apart=True,
            weight=20,
        )
    elif here.accelerators and there.accelerators and here.accelerators != there.accelerators:
        words = f"{here.accelerators} accelerators seen here, {there.accelerators} then: durations may differ"
        yield Difference(words, apart=False, weight=3)
    if here.arch and there.arch and here.arch != there.arch:
        yield Difference(f"machine {here.arch} here, {there.arch} then: durations may differ", apart=False, weight=3)
    if here.cpus and there.cpus and here.cpus != there.cpus:
        slower = here.cpus < there.cpus
        words = f"{here.cpus} CPUs here, {there.cpus} then: expect a {'slower' if slower else 'faster'} start"
        yield Difference(words, apart=False, weight=1)


def _caches(then: Configuration, now: Configuration) -> Iterable[Difference]:
    means = {("cold", "warm"): "expect a slower start", ("warm", "cold"): "expect a faster start"}
    what = means.get((now.caches, then.caches))
    if what is not None:
        yield Difference(f"caches were {then.caches} then and are {now.caches} here: {what}", apart=False, weight=2)


def _ratio(then: Configuration, now: Configuration) -> float:
    """How many times as many bytes are to be loaded; 1 where that is not known, or hardly differs."""
    if not then.weight_bytes or not now.weight_bytes:
        return 1.0
    ratio = now.weight_bytes / then.weight_bytes
    return ratio if abs(ratio - 1.0) > _HARDLY else 1.0


def _weights(then: Configuration, now: Configuration) -> Iterable[Difference]:
    ratio = _ratio(then, now)
    if ratio != 1.0:
        here, there = (f"{(one or 0) / (1 << 30):.1f} GiB" for one in (now.weight_bytes, then.weight_bytes))
        words = f"weights of {here} here, {there} then: downloads and loading are expected to take {ratio:.1f} times as long"
        yield Difference(words, apart=False, weight=2)


def _scale(then: Configuration, now: Configuration) -> float:
    """A start on CPUs takes longer where fewer of them are there for each rank, at most in proportion: a rank is a process
    that imports and computes."""
    here, there = now.hardware, then.hardware
    if here.accelerator != "none" or there.accelerator != "none":
        return 1.0
    fewer = there.cpus / here.cpus if here.cpus and there.cpus else 1.0
    return max(1.0, fewer * _ranks(now) / _ranks(then))


def _phases(then: Configuration, now: Configuration, profile: Profile) -> Iterable[Difference]:
    for spec in profile.phases:
        here, there = exists(spec, now.args), exists(spec, then.args)
        if here != there:
            what = "expect a longer start" if here else "expect a faster start"
            only = "only here" if here else "not here"
            yield Difference(f"phase {spec.id} is {only}, by the arguments: {what}", apart=False, weight=2)


def _arguments(then: Configuration, now: Configuration) -> Iterable[Difference]:
    for name in sorted({*then.args, *now.args} - {*_SIZES, _RANKS, "nnodes"}):
        here, there = now.args.get(name), then.args.get(name)
        if here != there:
            yield Difference(f"--{name}: {_said(here)} here, {_said(there)} then", apart=False, weight=1)


def _said(value: str | None) -> str:
    return "left out" if value is None else value or "given"
