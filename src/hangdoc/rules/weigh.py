"""One cause held against one launch: its gate, its condition, how sure a hit may be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..model.words import Certainty
from .conditions import Condition
from .engine import Answer, Held, Lack, evaluate
from .form import JUDGED, KnownCause
from .values import World

# What hangs together by itself: facts of one group are one signal, not two. Judged facts are no signal of a cause.
_SIGNAL = {"arguments": "arguments", "native": "stacks", "baseline": "logs"}
_ORDER: dict[Certainty, int] = {"certain": 0, "likely": 1, "hint": 2}


class Weighed(msgspec.Struct, frozen=True):
    """A cause and its answer."""

    cause: KnownCause
    answer: Answer

    @property
    def truth(self) -> bool | None:
        """Whether it holds."""
        return self.answer.truth

    @property
    def signals(self) -> frozenset[str]:
        """Probes that independently speak for it."""
        return frozenset(
            _SIGNAL.get(one.fact.probe, one.fact.probe)
            for one in self.answer.held
            if one.truth and one.fact.probe != "judged" and not _gate_fact(one)
        )

    @property
    def confidence(self) -> Certainty:
        """How sure: previews are hints, and so is what rests on one signal alone."""
        if self.cause.status == "preview" or len(self.signals) < 2:
            return "hint"
        return self.cause.confidence

    def rank(self) -> tuple[Any, ...]:
        """Sorts the surest and most specific first, those that only say what a process does after the others as sure."""
        told = len({one.key() for one in self.answer.held if one.truth and not _gate_fact(one)})
        return _ORDER[self.confidence], self.cause.generic, -len(self.signals), -told, self.cause.id


def _gate_fact(one: Held) -> bool:
    return one.fact.name in ("verdict", "phase", "engine", "version")


def gate(cause: KnownCause) -> Condition:
    """What `verdicts`, `phases`, `engines` and `versions` ask for, as conditions. A cause that lists every verdict is
    held against what is undecided, too: its evidence shows by itself that something stands still."""
    asked = [] if set(cause.verdicts) >= JUDGED else [Condition(fact="verdict", in_=cause.verdicts)]
    if cause.engines:
        asked.append(Condition(fact="engine", in_=cause.engines))
    if cause.phases:
        asked.append(Condition(fact="phase", in_=cause.phases))
    if cause.versions:
        asked.append(Condition(fact="version", within=cause.versions))
    return Condition(all=tuple(asked))


def weigh(cause: KnownCause, world: World, asked: Condition | None = None) -> Weighed:
    """Hold a cause against a launch. Its gate, which may be given, is asked first: most causes end there."""
    first = evaluate(asked or gate(cause), world)
    if first.truth is False:
        return Weighed(cause, first)
    second = evaluate(cause.when, world)
    if second.truth is False or first.truth is True:
        return Weighed(cause, second)
    return Weighed(cause, replace(second, truth=None, lacks=first.lacks + second.lacks))


def rank(every: Sequence[Weighed]) -> list[Weighed]:
    """The causes that hold, surest first, without those that another one explains."""
    hits = [one for one in every if one.truth]
    by_id = {one.cause.id: one for one in every}
    explained: set[str] = set()
    border = [name for one in hits for name in one.cause.explains]
    while border:
        name = border.pop()
        if name not in explained:
            explained.add(name)
            border += by_id[name].cause.explains if name in by_id else ()
    return sorted((one for one in hits if one.cause.id not in explained), key=Weighed.rank)


def lacks_of(every: Sequence[Weighed]) -> Mapping[str, tuple[Lack, ...]]:
    """Causes that could not be judged, with the facts that were missing."""
    return {one.cause.id: one.answer.lacks for one in every if one.truth is None}
