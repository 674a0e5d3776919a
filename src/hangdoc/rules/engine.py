"""Three-valued evaluation of a condition: it holds, it does not, or a fact is missing. Pure.

Kleene's logic: a missing fact makes a leaf unknown, and unknown gives way only to what decides without it. So taking
facts away can turn any answer into unknown, and unknown into nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec
import re2
from msgspec.structs import replace

from ..engines.versions import release, within
from .conditions import Condition, amount
from .fact import PROBES, Fact
from .facts import FACTS
from .values import Lines, Missing, Seen, Subject, Who, World

_CULPRITS = 8  # culprits that a condition is asked of: they are culprits together because their pictures are the same
_SHOWN = 3  # values of a set that a sentence names


class Held(msgspec.Struct, frozen=True):
    """A leaf that was decided, and the value that decided it."""

    fact: Fact
    name: str
    subject: Subject
    value: Any  # what of the value met the matcher; for a set or a log only that part
    truth: bool = True

    def key(self) -> tuple[str, str, str]:
        """What it is about: equal ones are said once."""
        return self.fact.name, self.name, self.subject.label


class Lack(msgspec.Struct, frozen=True):
    """A fact that was missing."""

    fact: Fact | None  # None: whoever has the facts was missing
    name: str
    subject: str
    missing: Missing

    @property
    def what(self) -> str:
        """How a sentence names it."""
        if self.fact is None:
            return self.subject
        return f"{self.fact.said} {self.name}".strip() + (f" of {self.subject}" if self.subject else "")


class Answer(msgspec.Struct, frozen=True):
    """`truth` None is unknown. `held`: the leaves that decided it; `lacks`: the facts without which it is not."""

    truth: bool | None
    held: tuple[Held, ...] = ()
    lacks: tuple[Lack, ...] = ()


def evaluate(condition: Condition, world: World) -> Answer:
    """The answer for a whole launch. Every `culprit:` in a condition means the same one: it is asked for each in turn."""
    culprits = [one for one in world.members if one.culprit]
    if len(culprits) < 2:
        return _node(condition, world.launch, world)
    answers = []
    for one in culprits[:_CULPRITS]:
        members = tuple(replace(each, culprit=each is one) for each in world.members)
        found = _node(condition, world.launch, replace(world, members=members))
        if found.truth:
            return found
        answers.append(found)
    return _any(answers)


def _node(one: Condition, subject: Subject, world: World) -> Answer:
    if one.fact:
        return _leaf(one, subject)
    if one.all:
        return _all(_node(part, subject, world) for part in one.all)
    if one.any:
        return _any(_node(part, subject, world) for part in one.any)
    if one.not_:
        return _not(_node(one.not_, subject, world))
    name, inner = one.quantified() or ("", one)
    return _QUANTIFIED[name](inner, world)


def _all(answers: Iterable[Answer]) -> Answer:
    held: list[Held] = []
    lacks: list[Lack] = []
    for one in answers:
        if one.truth is False:
            return one
        held += one.held
        lacks += one.lacks if one.truth is None else ()
    return Answer(None if lacks else True, tuple(held), tuple(lacks))


def _any(answers: Iterable[Answer]) -> Answer:
    every = list(answers)
    true = [one for one in every if one.truth]
    if true:
        return Answer(True, tuple(held for one in true for held in one.held))
    lacks = tuple(lack for one in every for lack in one.lacks)
    return Answer(None if lacks else False, tuple(held for one in every for held in one.held), lacks)


def _not(answer: Answer) -> Answer:
    return replace(answer, truth=None if answer.truth is None else not answer.truth)


def _nobody(who: str, why: str, fix: str = "") -> Answer:
    return Answer(None, (), (Lack(None, "", who, Missing("judged", why, fix or PROBES["judged"])),))


def _members(chosen: Callable[[Who], bool], who: str, *, every: bool = False) -> Callable[[Condition, World], Answer]:
    def over(inner: Condition, world: World) -> Answer:
        answers = []
        for one in world.members:
            if chosen(one):
                answers.append(_node(inner, one.subject, world))
                if answers[-1].truth is not None and answers[-1].truth is not every:  # that decides it
                    return answers[-1]
        if not answers:
            return _nobody(who, f"no {who} is known")
        found = _all(answers) if every else _any(answers)
        if found.truth is every and not world.complete and who == "rank":  # those that were not seen may differ
            return _nobody("every rank", "some ranks are on hosts that were not looked at", "name those hosts, too")
        return found

    return over


def _hosts(inner: Condition, world: World) -> Answer:
    if not world.hosts:
        return _nobody("host", "no facts about the host were read")
    return _any(_node(inner, one, world) for one in world.hosts)


_QUANTIFIED: dict[str, Callable[[Condition, World], Answer]] = {
    "culprit": _members(lambda one: one.culprit, "culprit"),
    "victims": _members(lambda one: one.victim, "victim"),
    "any_rank": _members(lambda one: one.rank, "rank"),
    "all_ranks": _members(lambda one: one.rank, "rank", every=True),
    "any_member": _members(lambda _: True, "member"),
    "host": _hosts,
}


def _leaf(one: Condition, subject: Subject) -> Answer:
    fact = FACTS[one.fact]
    found = subject.get(one.fact, one.name)
    if isinstance(found, Missing):
        return _unknown(one, subject, found)
    if fact.kind == "lines":
        return _lines(one, fact, subject, found.value)
    verdicts = [_MATCH[name](one, fact, found) for name in _matchers(one)]
    if None in verdicts and False not in verdicts:
        return _unknown(one, subject, Missing(fact.probe, "no earlier look to compare it with", PROBES["judged"]))
    truth = all(verdicts)
    return Answer(truth, (Held(fact, one.name, subject, _part(one, found.value, truth=truth), truth),))


_KNOWN: dict[int, tuple[Condition, tuple[str, ...]]] = {}


def _matchers(one: Condition) -> tuple[str, ...]:
    """Names of its matchers, kept by identity: a hash of a condition would cost more than finding them."""
    known = _KNOWN.get(id(one))
    if known is None or known[0] is not one:
        if len(_KNOWN) > 1 << 14:
            _KNOWN.clear()
        known = _KNOWN[id(one)] = one, one.matchers()
    return known[1]


def _unknown(one: Condition, subject: Subject, missing: Missing) -> Answer:
    return Answer(None, (), (Lack(FACTS[one.fact], one.name, subject.label, missing),))


def _lines(one: Condition, fact: Fact, subject: Subject, value: Lines | None) -> Answer:
    hits = value.find(one.matches) if value is not None else ()
    if hits:
        return Answer(True, (Held(fact, one.name, subject, hits[-1]),))
    if value is not None and not value.complete:
        gap = Missing(fact.probe, "parts of the log were not read", PROBES["logs"])
        return _unknown(one, subject, gap)
    return Answer(False, (Held(fact, one.name, subject, None, False),))


@lru_cache(maxsize=4096)
def compiled(text: str) -> Any:
    """A pattern of RE2: linear time, whatever the text. It was checked when its cause was loaded."""
    return re2.compile(text)


def _texts(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _is(one: Condition, fact: Fact, found: Seen) -> bool:
    return one.is_ in found.value if fact.kind == "texts" and found.value else bool(found.value == one.is_)


def _in(one: Condition, fact: Fact, found: Seen) -> bool:
    if fact.kind == "texts":
        return any(value in one.in_ for value in found.value or ())
    return found.value in one.in_


def _matches(one: Condition, _fact: Fact, found: Seen) -> bool:
    return any(_is_in(one.matches, value) for value in _texts(found.value))


@lru_cache(maxsize=1 << 16)
def _is_in(pattern: str, text: str) -> bool:
    """Whether a pattern is in a text. Ranks of one launch have the same frames, hundreds of times."""
    return compiled(pattern).search(text) is not None


def _low(name: str) -> Callable[[Condition, Fact, Seen], bool]:
    return lambda one, _, found: found.value is not None and found.value >= amount(getattr(one, name))


def _high(name: str) -> Callable[[Condition, Fact, Seen], bool]:
    return lambda one, _, found: found.value is not None and found.value <= amount(getattr(one, name))


def _within(one: Condition, _fact: Fact, found: Seen) -> bool | None:
    if found.value is None:
        return False
    return within(found.value, one.within) if release(found.value) else None


def _set(one: Condition, _fact: Fact, found: Seen) -> bool:
    return (found.value is not None and found.value != ()) == one.set


def _changed(one: Condition, _fact: Fact, found: Seen) -> bool | None:
    if found.value is None:  # known to be absent: what is not there does not change
        return not one.changed
    return None if found.before is None else (found.value != found.before) == one.changed


_MATCH: dict[str, Callable[[Condition, Fact, Seen], bool | None]] = {
    "is": _is, "in": _in, "matches": _matches, "at_least": _low("at_least"), "at_most": _high("at_most"),
    "older_than": _low("older_than"), "younger_than": _high("younger_than"), "within": _within, "set": _set,
    "changed": _changed,
}  # fmt: skip


def _part(one: Condition, value: Any, *, truth: bool) -> Any:
    """Of a set that which met the matcher, of other values all."""
    if isinstance(value, str) or not isinstance(value, list | tuple):
        return value
    if one.matches:
        value = [each for each in value if _is_in(one.matches, each)] if truth else ()
    elif one.in_ or one.is_ is not None:
        value = [each for each in value if each in one.in_ or each == one.is_]
    return tuple(value)[:_SHOWN]
