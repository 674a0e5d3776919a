"""The report for a terminal: what matters fits on one screen, `verbose` shows the rest. Report in, text out.

Only `rich.text.Text` carries what others wrote, never markup, and every piece goes through `safe.clean` first.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ..model.report import Culprit, Report
from ..model.words import Verdict
from . import crash
from .picture import (
    blind_spots,
    causes_undecided,
    clocks,
    detail,
    headline,
    label,
    next_steps,
    place,
    several_hosts,
    victims,
)
from .safe import clean
from .wording import CERTAINTY_WORDS, MECHANISM_WORDS, REASON_WORDS, VERDICT_WORDS, duration, plural, rate

NARROWEST, WIDEST = 60, 200
STYLES: dict[Verdict, str] = {
    "ready": "bold green",
    "progressing": "bold green",
    "slow": "bold yellow",
    "suspect": "bold yellow",
    "hung": "bold red",
    "crashed": "bold red",
    "undecided": "bold magenta",
}
_GAP = 2  # columns between a name and what is said
# Rows of one kind that fit on one screen; the others are counted.
_CULPRITS, _REASONS, _STEPS, _BLIND, _CAUSES, _EVIDENCE, _MOVING = 3, 5, 4, 4, 3, 3, 3

Row = tuple[str, Text]


def render(report: Report, *, width: int = 80, colour: bool = False, verbose: bool = False) -> str:
    """The report as text with a line end. `width` in columns, held between 60 and 200."""
    sink = io.StringIO()
    console = Console(
        file=sink,
        width=max(NARROWEST, min(WIDEST, width)),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in _title(report):
        console.print(line, soft_wrap=False)
    rows = list(_screen(report, verbose=verbose))
    beside = max((len(name) for name, _ in rows), default=0) + _GAP
    for name, words in rows:
        lines = words.wrap(console, console.width - beside, overflow="fold")
        for number, line in enumerate(lines):
            console.print(Text.assemble((f"{'' if number else name:<{beside}}", "bold"), line))
    if verbose:
        from .details import parts  # noqa: PLC0415 - a report without tables need not load them

        for part in parts(report):
            console.print(part)
    else:
        console.print(Text("-v shows every rank, process, log and stack; --json has all of it.", style="dim"))
    return "".join(f"{line.rstrip()}\n" for line in sink.getvalue().splitlines())


def text(value: str, limit: int = 400, style: str = "") -> Text:
    """Text of others, made safe and bounded."""
    return Text(clean(value, limit), style=style)


def _title(report: Report) -> Iterator[Text]:
    if report.hangdoc.provisional:
        yield Text("PROVISIONAL: still looking, this may change", style="reverse")
    first = Text(report.verdict.upper(), style=STYLES[report.verdict])
    if report.verdict != "undecided":  # how sure one is of knowing too little says nothing
        first.append(f" ({CERTAINTY_WORDS[report.confidence]})", style="not bold")
    first.append(f"  {clean(headline(report), 200)}", style="not bold default")
    yield first
    yield text(report.summary or VERDICT_WORDS[report.verdict], 600)
    if report.retracted:
        yield Text(f"An earlier look said {report.retracted}; that is taken back.")
    yield Text("")


def _screen(report: Report, *, verbose: bool) -> Iterator[Row]:
    yield from _culprits(report, verbose=verbose)
    yield from _listed(
        "Victims", [Text(f"{clean(one.label)}: {one.mechanism}") for one in victims(report)], 3, verbose=verbose
    )
    yield from _listed("Clocks", [Text(" · ".join(clocks(report)))] if clocks(report) else [], 1, verbose=verbose)
    yield from _listed("Why", [text(f"- {reason}") for reason in report.reasons], _REASONS, verbose=verbose)
    yield from _listed("Compared", _compared(report), 3, verbose=verbose)
    if report.crash is not None:
        yield from crash.rows(report.crash, verbose=verbose)
    yield from _causes(report, verbose=verbose)
    yield from _listed("Moving", _moving(report), _MOVING, verbose=verbose)
    yield from _listed("Log", _log(report), 2, verbose=verbose)
    yield from _listed("Ports", _ports(report), 2, verbose=verbose)
    steps = [text(f"{number}. {step}") for number, step in enumerate(next_steps(report), 1)]
    yield from _listed("Next", steps, _STEPS, verbose=verbose)
    yield from _listed("Wrong if", [text(report.disprove)] if report.disprove else [], 1, verbose=verbose)
    yield from _listed("Unseen", _blind(report), _BLIND, verbose=verbose)


def _listed(name: str, lines: list[Text], limit: int, *, verbose: bool) -> Iterator[Row]:
    """Rows under one name; what is over `limit` is counted unless everything is wanted."""
    shown = lines if verbose else lines[:limit]
    for number, line in enumerate(shown):
        yield (name if number == 0 else "", line)
    if len(lines) > len(shown):
        yield ("", Text(f"and {len(lines) - len(shown)} more", style="dim"))


def _culprits(report: Report, *, verbose: bool) -> Iterator[Row]:
    hosts = several_hosts(report)
    shown = report.culprits if verbose else report.culprits[:_CULPRITS]
    for number, one in enumerate(shown):
        name = ("Culprit" if len(report.culprits) == 1 else "Culprits") if number == 0 else ""
        yield (name, _who(one, hosts=hosts))
        if detail(report, one):
            yield ("", text(detail(report, one)))
        where = place(one.frame)
        if where:
            yield ("", text(f"in {where}"))
        if one.object:
            yield ("", text(f"waits for {one.object}"))
    if len(report.culprits) > len(shown):
        yield ("", Text(f"and {len(report.culprits) - len(shown)} more", style="dim"))


def _who(one: Culprit, *, hosts: bool) -> Text:
    thread = f", thread {one.tid}" if one.tid is not None and one.tid != one.pid else ""
    inside = f", {one.nstid} in its container" if one.nstid is not None and one.nstid != one.tid else ""
    line = text(f"{label(one, with_host=hosts)} (PID {one.pid}{thread}{inside})", style="bold")
    since = f" for {duration(one.since_s)}" if one.since_s is not None else ""
    line.append(f": {MECHANISM_WORDS[one.mechanism]}{since} ({CERTAINTY_WORDS[one.certainty]})", style="not bold")
    return line


def _causes(report: Report, *, verbose: bool) -> Iterator[Row]:
    """Known causes that hold, with what speaks for the first; for all of them, and what would speak against, when verbose."""
    shown = report.causes if verbose else report.causes[:_CAUSES]
    for number, cause in enumerate(shown):
        name = ("Cause" if len(report.causes) == 1 else "Causes") if number == 0 else ""
        line = text(cause.title, style="bold" if cause.confidence != "hint" else "")
        line.append(
            f" ({CERTAINTY_WORDS[cause.confidence]}; hangdoc causes show {clean(cause.id, 80)})", style="not bold"
        )
        yield (name, line)
        evidence = cause.evidence if verbose else cause.evidence[:_EVIDENCE] if number == 0 else []
        for told in evidence:
            yield ("", text(f"- {told}", 400 if verbose else 200))
        if verbose:
            yield ("", text(f"wrong if: {cause.disprove}"))
            for source in cause.sources:
                yield ("", text(source))
    if len(report.causes) > len(shown):
        yield ("", Text(f"and {len(report.causes) - len(shown)} more", style="dim"))


def _moving(report: Report) -> list[Text]:
    """What moved, progress first; of a launch that is stuck or has ended only what idles, for it explains the noise."""
    order = {"progress": 0, "work": 1, "idling": 2}
    over = report.verdict in ("hung", "crashed")  # what moved there did so before
    rows = [row for row in report.progress if row.moved and (row.kind == "idling" or not over)]
    rows.sort(key=lambda row: order[row.kind])
    return [
        text(
            " ".join(
                part for part in (f"{row.channel}:", rate(row.rate, row.unit), row.detail, _weight(row.kind)) if part
            )
        )
        for row in rows
    ]


def _compared(report: Report) -> list[Text]:
    """This start beside good ones, where it is not ready."""
    beside = report.baseline
    if beside is None or report.verdict == "ready":
        return []
    lines = [text(f"{beside.name} ({plural(beside.runs, 'good start')}): {fact}") for fact in beside.facts[:1]]
    if beside.overdue_line and (beside.overdue_by_s or 0) > 0:
        lines.append(text(f"overdue for {duration(beside.overdue_by_s or 0)}: {beside.overdue_line}", 240))
    return lines + [text(fact) for fact in (*beside.distance, *beside.facts[1:])]


def _weight(kind: str) -> str:
    return {"progress": "(progress)", "work": "(work)", "idling": "(idling, does not count)"}[kind]


def _log(report: Report) -> list[Text]:
    lines = [text(f"last line: {log.tail[-1].strip()}", 240) for log in report.logs if log.tail]
    if not report.logs:
        lines.append(Text("no log was found"))
    if report.phase and report.phase.next_line and report.verdict != "ready":
        who = f" from {label(report.culprits[0], with_host=False)}" if report.culprits else ""
        lines.append(text(f"in a good start the next line{who} is: {report.phase.next_line}", 240))
    return lines


def _ports(report: Report) -> list[Text]:
    """The port of the server first: a real launch listens on dozens of others, and only two rows are shown."""
    rows = sorted(report.ports, key=lambda one: one.health is None and one.state == "LISTEN")
    return [text(f"{port.port} {port.state}" + (f", health: {port.health}" if port.health else "")) for port in rows]


def _blind(report: Report) -> list[Text]:
    lines = []
    for spot in blind_spots(report):
        advice = f". {spot.advice}" if spot.advice else ""
        lines.append(text(f"- {spot.what}: {REASON_WORDS[spot.reason]}{advice}"))
    causes = causes_undecided(report)
    if causes:
        lines.append(Text(f"- {plural(len(causes), 'known cause')} could not be judged for want of facts"))
    return lines
