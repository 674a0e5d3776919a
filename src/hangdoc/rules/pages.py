"""A cause, the index of causes and the list of facts as Markdown: what `causes show` prints and what docs/ holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model.words import PHASES
from .conditions import QUANTIFIERS, Condition
from .fact import KIND_WORDS, PROBES, Fact
from .facts import FACTS
from .form import PLACES, STUCK, KnownCause, Step

_SCOPES = {
    "launch": ("Of the launch", "They stand outside of any quantifier."),
    "host": ("Of a host", "They stand below `host:`."),
    "member": ("Of a member", "They stand below `culprit:`, `victims:`, `any_rank:`, `all_ranks:` or `any_member:`."),
}
_STATUS = {
    "stable": "stable: stands on a reproduction or on a public report with its accepted diagnosis",
    "preview": "preview: shown as a hint only, until it has been reproduced or confirmed",
}
_QUANTIFIED = {
    "culprit": "of a culprit", "victims": "of a victim", "any_rank": "of some rank", "all_ranks": "of every rank",
    "any_member": "of some process of the launch", "host": "of a host",
}  # fmt: skip
_FILL_IN = {
    "pid": "the process that the evidence is about, first the culprit",
    "root": "the first process of the launch",
    "rank": "the number of the rank",
    "host": "the host of that process",
    "port": "the port that the server is to listen on",
    "path": "the file that it waits for",
    "log": "the server's log",
    "model": "the model as it was given to the server",
    "address": "where the nodes meet, without the port",
    "address_port": "the port where the nodes meet",
    "python": "the server's Python",
    "version": "the version of the engine",
}
_GENERATED = "Generated from `src/hangdoc/rules` by `make docs`."


def page(cause: KnownCause) -> str:
    """One cause, for people."""
    return "\n".join(_page(cause)) + "\n"


def _page(cause: KnownCause) -> Iterator[str]:
    yield from (f"# {cause.title}", "", f"`{cause.id}`, {_STATUS[cause.status]}.", "")
    yield f"- **Engines:** {', '.join(cause.engines) or 'any'}"
    yield f"- **Phases:** {', '.join(cause.phases) or 'any'}"
    if cause.versions:
        yield f"- **Versions of the engine:** {cause.versions}"
    if cause.verdicts != STUCK:
        yield f"- **Looked for when the verdict is:** {', '.join(cause.verdicts)}"
    if cause.note:
        yield f"- **Note:** {cause.note}"
    yield from ("", "## What you see", "", cause.symptom.strip(), "", "## Why it stops there", "", cause.why.strip())
    yield from ("", "## What hangdoc looks for", "", *_tree(cause.when, 0))
    yield from ("", "## What proves it", "", cause.evidence.strip())
    yield from ("", "## What to do first", "", *(f"{at}. {_step(one)}" for at, one in enumerate(cause.next, 1)))
    yield from _legend(cause.next)
    yield from ("", "## What cures it for good", "", cause.cure.strip())
    yield from ("", "## It is something else if", "", cause.disprove.strip())
    if cause.false_positives:
        yield from ("", "Looks alike, and is not:", "", *(f"- {one.strip()}" for one in cause.false_positives))
    if cause.explains:
        yield from ("", f"It accounts for, and hides: {', '.join(f'`{one}`' for one in cause.explains)}.")
    if cause.sources:
        yield from ("", "## Sources", "", *(f"- <{one}>" for one in cause.sources))


def _step(step: Step) -> str:
    """A step as a sentence: what is known of a launch only stands there as a name in capitals."""
    values = {name: name.upper() for name in PLACES}
    changes = " **(this changes the target)**" if step.changes else ""
    why, run = step.why.format(**values), step.run.format(**values)
    ticks = "``" if "`" in run else "`"
    return f"{why}{changes}: {ticks}{run}{ticks}" if run else f"{why}{changes}"


def _legend(steps: Sequence[Step]) -> Iterator[str]:
    """What stands for what in the steps of a page; nothing where they can be pasted as they are."""
    text = " ".join(f"{one.why} {one.run}" for one in steps)
    named = [f"{name.upper()} is {_FILL_IN[name]}" for name in PLACES if f"{{{name}}}" in text]
    said = []
    if named:
        said.append(f"`hangdoc diagnose` fills these in: {'; '.join(named)}.")
    if "~/" in text:
        said.append("`~` is the home of the user as whom the server runs, in its container if it has one.")
    if "py-spy " in text:
        said.append("`hangdoc check` says where py-spy is.")
    if said:
        yield from ("", " ".join(said))


def _tree(one: Condition, depth: int, prefix: str = "") -> Iterator[str]:
    pad = "  " * depth + "- " + prefix
    inner = one.quantified()
    if one.fact:
        yield pad + leaf_words(one)
    elif one.not_:
        yield from _tree(one.not_, depth, prefix + "not: ")
    elif inner and inner[1].fact:
        yield f"{pad}{_QUANTIFIED[inner[0]]}: {leaf_words(inner[1])}"
    elif inner:
        yield f"{pad}{_QUANTIFIED[inner[0]]}:"
        yield from _tree(inner[1], depth + 1)
    else:
        yield pad + ("all of" if one.all else "at least one of")
        for part in one.all or one.any:
            yield from _tree(part, depth + 1)


def leaf_words(one: Condition) -> str:
    """A leaf in words."""
    fact = FACTS[one.fact]
    what = f"{fact.said} `{one.name}`" if one.name else fact.said
    said = []
    if one.is_ is not None:
        said.append(f"is `{_plain(one.is_)}`")
    if one.in_:
        said.append("is one of " + ", ".join(f"`{_plain(each)}`" for each in one.in_))
    if one.matches:
        ticks = "``" if "`" in one.matches else "`"
        said.append(f"matches {ticks}{one.matches}{ticks}")
    for name in ("at_least", "at_most", "older_than", "younger_than"):
        bound = getattr(one, name)
        if bound is not None:
            said.append(
                f"{name.replace('_', ' ')} {_plain(bound)}{' s' if 'than' in name and not isinstance(bound, str) else ''}"
            )
    if one.within:
        said.append(f"within `{one.within}`")
    if one.set is not None:
        said.append("is there" if one.set else "is not there")
    if one.changed is not None:
        said.append("changed while it was looked at" if one.changed else "did not change while it was looked at")
    return f"{what} {' and '.join(said)}"


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def index(causes: Sequence[KnownCause]) -> str:
    """All causes by the phase in which they show first."""
    return "\n".join(_index(causes)) + "\n"


def _index(causes: Sequence[KnownCause]) -> Iterator[str]:
    stable = sum(1 for one in causes if one.status == "stable")
    yield from ("# Known causes", "", f"{_GENERATED} How to write one: [rules.md](../rules.md).", "")
    yield f"{len(causes)} causes, {stable} of them stable; the others are previews and are shown as hints."
    groups: dict[str, list[KnownCause]] = {}
    for one in causes:
        first = min(one.phases, key=PHASES.index) if one.phases else "any phase"
        groups.setdefault(first, []).append(one)
    for phase in ("any phase", *PHASES):
        rows = sorted(groups.get(phase, ()), key=lambda one: one.id)
        if rows:
            yield from ("", f"## {phase}", "", "| cause | what is wrong | engines | status |", "|---|---|---|---|")
        for one in rows:
            yield f"| [{one.id}]({one.id}.md) | {one.title} | {', '.join(one.engines) or 'any'} | {one.status} |"


def facts_page() -> str:
    """The closed list of facts."""
    return "\n".join(_facts()) + "\n"


def _facts() -> Iterator[str]:
    yield from (
        "# Facts that a cause may ask for",
        "",
        f"{_GENERATED} How a cause asks for them: [rules.md](rules.md).",
    )
    for scope, (title, where) in _SCOPES.items():
        yield from ("", f"## {title}", "", where, "", "| fact | type | probe | meaning |", "|---|---|---|---|")
        yield from (_fact(one) for one in FACTS.values() if one.scope == scope)
    yield from ("", "## Types", "", *(f"- `{kind}`: {words}" for kind, words in KIND_WORDS.items()))
    yield from ("", "## Probes", "", "What to do when one told nothing:", "")
    yield from (f"- `{probe}`: {words}" for probe, words in PROBES.items())


def _fact(one: Fact) -> str:
    name = f"`{one.name}`" + (" with `name`" if one.named else "")
    return f"| {name} | {one.kind} | {one.probe} | {one.means} |"


QUANTIFIER_WORDS = {name: _QUANTIFIED[name] for name in QUANTIFIERS}
