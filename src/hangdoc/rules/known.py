"""Known causes of what was seen of a launch, as rows of the report. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import msgspec

from ..analysis.judge import Judgement
from ..analysis.links import Edge
from ..analysis.view import Picture, View
from ..engines.nodes import endpoint
from ..model import report as r
from ..model.places import own, unmarked
from . import of_cgroup, of_host, of_launch, of_machine, of_member, of_storage
from .conditions import Condition
from .engine import Answer, Held, Lack
from .form import PLACES, KnownCause, Step
from .gather import Gathered, Getter, Looked
from .values import Who, World
from .weigh import Weighed, gate, lacks_of, rank, weigh

HOST: Mapping[str, Getter[of_host.OfHost]] = {**of_host.GETTERS, **of_storage.HOST, **of_machine.HOST}
MEMBER: Mapping[str, Getter[of_member.OfMember]] = {
    **of_member.GETTERS,
    **of_storage.MEMBER,
    **of_machine.MEMBER,
    **of_cgroup.MEMBER,
}
_NOT = Answer(False)
_LACKS = 6  # sentences about facts that were missing
_SAID = 160  # characters of one value in a sentence


class Causes(Protocol):
    """A catalogue."""

    @property
    def causes(self) -> tuple[KnownCause, ...]:
        """All of them."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """What it asks of logs."""


class Known(msgspec.Struct, frozen=True, dict=True):
    """A catalogue that a Diagnosis may ask."""

    catalogue: Causes

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """What its causes ask of logs: lines with these in them are found among those of the logs."""
        return self.catalogue.patterns

    @cached_property
    def _gated(self) -> tuple[tuple[KnownCause, Condition], ...]:
        return tuple((one, gate(one)) for one in self.catalogue.causes)

    def rows(
        self, view: View, pictures: Sequence[Picture], edges: Sequence[Edge], judgement: Judgement
    ) -> tuple[list[r.Cause], list[r.UndecidedCause]]:
        """The causes that hold, surest first, and those for which facts were missing."""
        world = gathered(Looked(view, pictures, edges, judgement))
        verdict = judgement.verdict
        # Most causes end here, where the others would end at the first condition of their gate.
        every = [
            weigh(one, world, asked) if verdict in (*one.verdicts, "undecided") else Weighed(one, _NOT)
            for one, asked in self._gated
        ]
        hits = [_row(one, world) for one in rank(every)]
        undecided = [r.UndecidedCause(name, lacks_words(lacks)) for name, lacks in lacks_of(every).items()]
        return hits, undecided


def gathered(looked: Looked) -> World:
    """All subjects of a launch that was looked at."""
    view = looked.view
    ranks = of_launch.ranks(looked)
    blamed = {one.member.pid for one in looked.judgement.culprits}
    if not blamed and looked.judgement.behind is not None:
        blamed = {looked.judgement.behind.member.pid}
    members = []
    hosts = [one.host for one in view.history.places]
    for pid, track in sorted(view.history.tracks.items()):
        picture = looked.pictured.get(pid)
        one = of_member.OfMember(looked, track, picture)
        lock = of_storage.lock_of(one)
        path = unmarked(hosts, of_member.path_of(one) or (lock.path if lock else ""))[1]
        places = {
            "pid": str(own(pid)),
            "rank": str(track.member.rank),
            "path": path,
            "host": view.history.host_of(pid),
            "on": track.member.host,
        }
        subject = Gathered(track.member.who, one, MEMBER, places)
        members.append(Who(subject, pid in blamed, bool(picture and picture.victim), pid in ranks))
    launch = Gathered("", looked, of_launch.GETTERS)
    members.sort(key=lambda one: not one.culprit)
    complete = view.launch.engine != "unknown" and len(ranks) >= _expected(looked)
    return World(launch, tuple(_hosts(looked)), tuple(members), complete, _places(looked))


def _hosts(looked: Looked) -> Iterator[Gathered]:
    """Hosts whose facts were read, the first one first."""
    history = looked.view.history
    for place, facts in sorted(history.facts.items()):
        one = of_host.OfHost(looked, facts, place)
        name = one.host or looked.view.launch.host
        yield Gathered(f"host {name}", one, HOST, {"host": name})


def _expected(looked: Looked) -> int:
    found = of_launch.GETTERS["ranks_expected"](looked, "")
    return found if isinstance(found, int) else 0


def _places(looked: Looked) -> dict[str, str]:
    launch = looked.view.launch
    args = launch.args
    meet = endpoint(launch.nodes[0].address if launch.nodes else args.get("dist-init-addr", ""))
    return {
        "root": str(own(launch.root)),
        "host": launch.host,
        "root_on": next((one.host for pid, one in launch.members.items() if pid == launch.root), ""),
        "port": str(launch.port or ""),
        "log": next((path for path in looked.view.logbook.states if path.startswith("/")), ""),
        "model": args.get("model") or args.get("model-path") or "",
        "address": (meet[0] or "").strip("[]") or args.get("master-addr") or "",
        "address_port": str(meet[1] or args.get("master-port") or ""),
        "version": launch.version or "",
        "python": next((one.exe for pid in (launch.root,) if (one := looked.process(pid)) and one.exe), ""),
    }


def _row(one: Weighed, world: World) -> r.Cause:
    cause = one.cause
    places = {**dict.fromkeys(PLACES, ""), **world.places}
    for held in reversed(one.answer.held):  # the first that names a value wins
        places.update({name: value for name, value in held.subject.places.items() if value and held.truth})
    return r.Cause(
        cause.id, cause.title, one.confidence, evidence_words(one.answer.held),
        [step_words(step, places) for step in cause.next], cause.disprove, list(cause.sources),
    )  # fmt: skip


def step_words(step: Step, places: Mapping[str, str]) -> str:
    """A step in words, with this launch's own values in it; with the host of its process where that is not this one (`on`)."""
    changes = " (this changes the target)" if step.changes else ""
    why = filled(step.why, places)
    if step.run.startswith("hangdoc "):  # it is run here, and takes the host with the number
        for name, host in (("pid", places.get("on")), ("root", places.get("root_on"))):
            if host and places.get(name):
                places = {**places, name: f"{host}:{places[name]}"}
    elif places.get("on") and any(f"{{{name}}}" in step.run for name in ("pid", "root", "path")):
        why = f"on {places['on']}: {why}"
    return f"{why}{changes}: {filled(step.run, places)}" if step.run else f"{why}{changes}"


def filled(text: str, places: Mapping[str, str]) -> str:
    """A text with values in place of names in braces, quoted for the shell; one that is not known is its name in capitals."""
    import string  # noqa: PLC0415 - 2 ms that only a cause that holds is worth

    parts = []
    for plain, name, _, _ in string.Formatter().parse(text):
        parts.append(plain)
        if name is not None:
            parts.append(shlex.quote(places[name]) if places.get(name) else name.upper())
    return "".join(parts)


def evidence_words(held: Iterable[Held]) -> list[str]:
    """What held, one sentence each, those of the gate left out."""
    told = [one for one in held if one.fact.name not in ("verdict", "phase", "engine")]
    return list(dict.fromkeys(_sentence(one) for one in told if one.truth or one.fact.name != "role"))


def _sentence(one: Held) -> str:
    who = f"{one.subject.label}: " if one.subject.label else ""
    what = f"{one.fact.said} {one.name}".strip()
    if one.fact.kind == "lines":
        return f"{who}{what}: {one.value.strip()[:_SAID]}" if one.truth else f"{who}no such line in {what}"
    if not one.truth and one.value in ((), None) and not one.fact.named:
        return f"{who}{what}: nothing of the kind"
    return f"{who}{what}{'' if one.value is True else f': {_value(one)}'}"


def _value(one: Held) -> str:
    value = one.value
    if value is None:
        return "none" if not one.fact.named else "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if one.fact.kind == "bytes":
        return f"{value / (1 << 30):.1f} GiB" if value >= 1 << 30 else f"{value / (1 << 20):.1f} MiB"
    if one.fact.kind == "seconds":
        return f"{value:.0f} s"
    if isinstance(value, tuple | list):
        return ", ".join(str(each)[:_SAID] for each in value) or "none"
    return str(value)[:_SAID]


def lacks_words(lacks: Iterable[Lack]) -> list[str]:
    """The facts that were missing, by reason and cure, one sentence each."""
    by_cure: dict[tuple[str, str, str], list[str]] = {}
    for one in lacks:
        key = one.missing.probe, one.missing.reason, one.missing.fix
        by_cure.setdefault(key, []).append(one.what)
    sentences = []
    for (probe, reason, fix), names in by_cure.items():
        listed = list(dict.fromkeys(names))
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        cure = f": {fix}" if fix else ""
        sentences.append(f"{', '.join(listed[:3])}{more} ({probe}, {reason}){cure}")
    return sentences[:_LACKS]
