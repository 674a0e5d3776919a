"""The form of a condition, and whether one is well made: closed facts, right types, bounded depth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
import re2

from ..engines.versions import RangeError, clauses
from .fact import Fact, Kind
from .facts import FACTS

DEPTH = 10
NODES = 200
PATTERN = 400  # characters of one pattern
QUANTIFIERS = ("culprit", "victims", "any_rank", "all_ranks", "any_member", "host")
_MATCHERS: dict[Kind, frozenset[str]] = {
    "bool": frozenset({"is", "set", "changed"}),
    "number": frozenset({"is", "in", "at_least", "at_most", "set", "changed"}),
    "bytes": frozenset({"at_least", "at_most", "set", "changed"}),
    "seconds": frozenset({"older_than", "younger_than", "set", "changed"}),
    "text": frozenset({"is", "in", "matches", "set", "changed"}),
    "texts": frozenset({"is", "in", "matches", "set"}),
    "version": frozenset({"within", "set"}),
    "lines": frozenset({"matches"}),
}
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "s": 1, "min": 60, "h": 3600}


class BadCondition(ValueError):
    """A condition that is not well made; the message says where and what."""


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One node: exactly one of all, any, not, a quantifier, or a fact with at least one matcher."""

    all: tuple[Condition, ...] = ()
    any: tuple[Condition, ...] = ()
    not_: Condition | None = msgspec.field(name="not", default=None)
    culprit: Condition | None = None
    victims: Condition | None = None
    any_rank: Condition | None = None
    all_ranks: Condition | None = None
    any_member: Condition | None = None
    host: Condition | None = None
    fact: str = ""
    name: str = ""
    is_: bool | int | float | str | None = msgspec.field(name="is", default=None)
    in_: tuple[bool | int | float | str, ...] = msgspec.field(name="in", default=())
    matches: str = ""
    at_least: float | str | None = None
    at_most: float | str | None = None
    older_than: float | str | None = None
    younger_than: float | str | None = None
    within: str = ""
    set: bool | None = None
    changed: bool | None = None

    def matchers(self) -> tuple[str, ...]:
        """Names of the matchers that are given."""
        found = [name for name in ("at_least", "at_most", "older_than", "younger_than", "set", "changed")
                 if getattr(self, name) is not None]  # fmt: skip
        found += [name for name in ("matches", "within") if getattr(self, name)]
        return (*found, *(["is"] if self.is_ is not None else []), *(["in"] if self.in_ else []))

    def quantified(self) -> tuple[str, Condition] | None:
        """The quantifier with what it ranges over, None for other nodes."""
        for name in QUANTIFIERS:
            inner = getattr(self, name)
            if inner is not None:
                return name, inner
        return None

    def leaves(self) -> Iterator[Condition]:
        """All nodes that ask for a fact."""
        if self.fact:
            yield self
        inner = self.quantified()
        below = (*self.all, *self.any, *((self.not_,) if self.not_ else ()), *((inner[1],) if inner else ()))
        for one in below:
            yield from one.leaves()


@lru_cache(maxsize=1024)
def amount(given: float | str) -> float:
    """A number, or one with a unit: "64 MiB", "10 min". Raises BadCondition."""
    if isinstance(given, int | float):
        return float(given)
    number, _, unit = given.strip().partition(" ")
    try:
        return float(number) * _UNITS[unit.strip()]
    except (ValueError, KeyError):
        raise BadCondition(f"{given!r} is no amount: a number, or one with {' '.join(_UNITS)}") from None


def check(condition: Condition, where: str = "when") -> None:
    """Raise BadCondition when it is not well made."""
    _node(condition, where, "launch", 1)
    if sum(1 for _ in condition.leaves()) > NODES:
        raise BadCondition(f"{where}: more than {NODES} conditions")


def _node(one: Condition, where: str, scope: str, depth: int) -> None:
    if depth > DEPTH:
        raise BadCondition(f"{where}: nested deeper than {DEPTH}")
    chosen = [name for name in ("all", "any", *QUANTIFIERS) if getattr(one, name)]
    chosen += (["not"] if one.not_ else []) + (["fact"] if one.fact else [])
    if len(chosen) != 1:
        raise BadCondition(
            f"{where}: exactly one of all, any, not, fact, {', '.join(QUANTIFIERS)}; here: {chosen or 'none'}"
        )
    if one.fact:
        _leaf(one, where, scope)
        return
    if one.matchers() or one.name:
        raise BadCondition(f"{where}: a matcher or a name without a fact")
    for kind, parts in (("all", one.all), ("any", one.any)):
        for number, part in enumerate(parts):
            _node(part, f"{where}.{kind}[{number}]", scope, depth + 1)
    if one.not_:
        _node(one.not_, f"{where}.not", scope, depth + 1)
    inner = one.quantified()
    if inner:
        if scope != "launch":
            raise BadCondition(f"{where}: {inner[0]} within another quantifier")
        _node(inner[1], f"{where}.{inner[0]}", "host" if inner[0] == "host" else "member", depth + 1)


def _leaf(one: Condition, where: str, scope: str) -> None:
    fact = FACTS.get(one.fact)
    if fact is None:
        raise BadCondition(f"{where}: there is no fact {one.fact[:60]!r} (docs/facts.md lists them)")
    where = f"{where}: {fact.name}"
    if fact.scope != scope:
        inside = {"launch": "outside of any quantifier", "host": "below `host:`", "member": "below culprit, any_rank …"}
        raise BadCondition(f"{where} is a fact of a {fact.scope}: it stands {inside[fact.scope]}")
    if fact.named != bool(one.name):
        raise BadCondition(f"{where} {'needs' if fact.named else 'takes no'} `name`")
    given = one.matchers()
    if not given:
        raise BadCondition(f"{where}: no matcher; it takes {', '.join(sorted(_MATCHERS[fact.kind]))}")
    for name in given:
        if name not in _MATCHERS[fact.kind]:
            raise BadCondition(
                f"{where} is {fact.kind}: it takes {', '.join(sorted(_MATCHERS[fact.kind]))}, not {name}"
            )
    _operands(one, fact, where)


def _operands(one: Condition, fact: Fact, where: str) -> None:
    for value in (*((one.is_,) if one.is_ is not None else ()), *one.in_):
        if not fits(fact.kind if fact.kind != "texts" else "text", value):
            raise BadCondition(f"{where} is {fact.kind}, and {value!r} is not")
    for bound in (one.at_least, one.at_most, one.older_than, one.younger_than):
        if bound is not None:
            amount(bound)
    if one.within:
        try:
            clauses(one.within)
        except RangeError:
            raise BadCondition(f'{where}: {one.within!r} is no version range such as ">=0.8,<0.10"') from None
    if one.matches:
        if len(one.matches) > PATTERN:
            raise BadCondition(f"{where}: a pattern of more than {PATTERN} characters")
        try:
            re2.compile(one.matches, _quiet())
        except re2.error as error:
            raise BadCondition(f"{where}: {one.matches!r} is no pattern of RE2: {_words(error)}") from None


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 4 << 20
    return options


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def fits(kind: Kind, value: Any) -> bool:
    """Whether a plain value is of a fact's kind."""
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("number", "seconds", "bytes"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("text", "version"):
        return isinstance(value, str)
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
