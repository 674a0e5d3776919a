"""The form of a cause: one YAML file of the catalogue, checked as a whole."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ..engines.versions import RangeError, clauses
from ..model.words import MECHANISMS, PHASES, ROLES, VERDICTS, Certainty, Phase, Verdict
from .conditions import BadCondition, Condition, check, fits
from .fact import Scope
from .facts import FACTS

Expected = Literal["hit", "clear", "undecided"]
# Values of the launch that a step may name; one that is not known is written as its name in capitals.
PLACES = ("pid", "root", "rank", "host", "port", "path", "log", "model", "address", "address_port", "python", "version")
JUDGED = frozenset(VERDICTS) - {"undecided"}
STUCK: tuple[Verdict, ...] = ("slow", "suspect", "hung", "crashed")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HARSH = re.compile(
    r"(?<![\w-])(?:rm|rmdir|kill|pkill|killall|reboot|mv|dd|truncate|unpause|umount|fuser -k|systemctl (?:re)?start"
    r"|systemctl stop|sysctl -w|--gpu-reset|-delete)(?![\w-])"
)
_URL = re.compile(r"https?://[^\s<>]{4,400}")
_CLOSED: dict[str, tuple[str, ...]] = {
    "verdict": VERDICTS, "phase": PHASES, "member_phase": PHASES, "mechanism": MECHANISMS, "role": ROLES,
}  # fmt: skip


class BadCause(ValueError):
    """A cause that is not well made: which file, which key, and what is wrong."""

    def __init__(self, where: str, what: object) -> None:
        """Join both to one message."""
        super().__init__(f"{where}: {what}")


class ExampleMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member in an example: its part, and its facts by name."""

    facts: dict[str, Any]
    culprit: bool = False
    victim: bool = False
    rank: bool = True


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A small set of facts, and what the cause must say to it. What is not given is missing, not absent."""

    name: str
    expect: Expected
    launch: dict[str, Any] = {}
    host: dict[str, Any] = {}
    members: tuple[ExampleMember, ...] = ()


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to do: what for, and the command where there is one."""

    why: str  # "see its state", without a full stop
    run: str = ""  # a command that can be pasted, with values of the launch in braces
    changes: bool = False  # it changes or ends the target, or loses evidence


class KnownCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One known reason why a launch stops. Texts are Markdown of one paragraph each."""

    id: str
    title: str  # what is wrong, as a sentence without its full stop
    phases: tuple[Phase, ...]  # in which it shows; empty: in any
    engines: tuple[Literal["vllm", "sglang"], ...]  # empty: any
    status: Literal["stable", "preview"]
    symptom: str  # what the user sees
    why: str  # why a launch stops there
    when: Condition
    evidence: str  # what proves it, by hand
    next: tuple[Step, ...]  # what to do first: safe steps, then those that change the target
    cure: str  # what cures it for good
    disprove: str  # what would show that it is something else
    false_positives: tuple[str, ...]  # look-alikes that it must not match
    sources: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = STUCK  # under which it is looked for
    versions: str = ""  # of the engine, that are affected: ">=0.4,<0.5.10"; empty: all, or not known
    confidence: Certainty = "likely"  # the most that it may claim
    generic: bool = False  # it says what a process does rather than why: specific causes come before it
    explains: tuple[str, ...] = ()  # causes whose symptoms it accounts for
    note: str = ""  # on versions, on the grade of its sources
    examples: tuple[Example, ...] = ()  # at least two in its file; those of shipped causes are not packed

    def patterns(self) -> tuple[str, ...]:
        """Patterns that it asks of logs."""
        return tuple(one.matches for one in self.when.leaves() if FACTS[one.fact].kind == "lines")

    def facts(self) -> tuple[str, ...]:
        """Names of the facts that it asks for, each once, in order."""
        return tuple(dict.fromkeys(one.fact for one in self.when.leaves()))


def validate(cause: KnownCause, where: str) -> None:
    """Raise BadCause when something is not as it should be, beyond what the types say."""
    try:
        _validate(cause)
    except (BadCondition, ValueError) as error:
        raise BadCause(where, error) from None


def _validate(cause: KnownCause) -> None:
    if not _ID.fullmatch(cause.id) or len(cause.id) > 60:
        raise ValueError(f"id: {cause.id[:60]!r} is not lower-case words joined by dashes, of at most 60 characters")
    for name in ("title", "symptom", "why", "evidence", "cure", "disprove"):
        if not getattr(cause, name).strip():
            raise ValueError(f"{name}: is empty")
    try:
        clauses(cause.versions)
    except RangeError:
        raise ValueError(f'versions: {cause.versions!r} is no range such as ">=0.8,<0.10"') from None
    for url in cause.sources:
        if not _URL.fullmatch(url):
            raise ValueError(f"sources: {url[:80]!r} is no address")
    if set(cause.verdicts) >= JUDGED and not cause.phases:
        raise ValueError("verdicts: a cause that is held against every verdict names its phases")
    _steps(cause.next)
    if cause.id in cause.explains:
        raise ValueError("explains: itself")
    check(cause.when)
    for leaf in cause.when.leaves():
        _words(leaf)
    _examples(cause)


def _steps(steps: tuple[Step, ...]) -> None:
    if not steps or steps[0].changes:
        raise ValueError("next: the first step is one that changes nothing")
    for number, step in enumerate(steps):
        where = f"next[{number}]"
        _braces(step.why, f"{where}.why")
        _braces(step.run, f"{where}.run")
        if _HARSH.search(step.run) and not step.changes:
            raise ValueError(f"{where}.run: {_HARSH.search(step.run)[0]!r} changes something: it needs `changes: true`")  # type: ignore[index]


def _braces(text: str, where: str) -> None:
    import string  # noqa: PLC0415 - 2 ms that only a cause of one's own, or one that holds, is worth

    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{where}: {error}; a brace itself is written twice") from None
    for _, name, spec, conversion in parts:
        if name is not None and (name not in PLACES or spec or conversion):
            raise ValueError(f"{where}: {{{name}}} is none of {', '.join(PLACES)}; a brace itself is written twice")


def _words(leaf: Condition) -> None:
    """Words of closed lists are spelled as they are there."""
    known = _CLOSED.get(leaf.fact)
    for word in (*((leaf.is_,) if leaf.is_ is not None else ()), *leaf.in_):
        if known is not None and word not in known:
            raise ValueError(f"when: {leaf.fact}: {word!r} is none of {' '.join(known)}")


def _examples(cause: KnownCause) -> None:
    wanted = {one.expect for one in cause.examples}
    if not {"hit", "clear"} <= wanted:
        raise ValueError("examples: at least one that is expected to hit and a near miss that is expected to be clear")
    for number, one in enumerate(cause.examples):
        where = f"examples[{number}]"
        _given(one.launch, "launch", f"{where}.launch")
        _given(one.host, "host", f"{where}.host")
        for at, member in enumerate(one.members):
            _given(member.facts, "member", f"{where}.members[{at}].facts")


def _given(facts: dict[str, Any], scope: Scope, where: str) -> None:
    for name, value in facts.items():
        fact = FACTS.get(name)
        if fact is None or fact.scope != scope:
            raise ValueError(f"{where}: there is no fact {name[:60]!r} of a {scope} (docs/facts.md lists them)")
        if fact.named and not isinstance(value, dict):
            raise ValueError(f"{where}: {name} is a family: a mapping of names to values")
        values = list(value.values()) if fact.named else [value]
        for each in values:
            if each is not None and not fits(fact.kind, each):
                raise ValueError(f"{where}: {name} is {fact.kind}, and {str(each)[:60]!r} is not")
