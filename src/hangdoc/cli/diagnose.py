"""`hangdoc diagnose`: one look, one report."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.live import Live
from rich.text import Text

from .. import __version__
from ..model.places import REACH
from ..model.report import Report
from ..report import terminal
from ..session import deep as session_deep
from ..session import target
from ..session.casefile import CaseWriter
from ..session.look import Look, Options
from . import exits, screen
from .good import baselines_of
from .here import Reaching, channel_to
from .known import known_causes
from .options import (
    BaselineOption,
    CausesOption,
    FailOnOption,
    JsonOption,
    MarkdownOption,
    PidOption,
    RedactOption,
    SaveOption,
    Stacks,
    StacksOption,
    VerboseOption,
    existing,
)
from .reaching import reaches
from .redacting import RedactedCase, Redaction
from .replay import report_of_cases
from .targets import Targets, parse, pid_of


@reaches
def command(  # noqa: PLR0913, PLR0917 - typer reads the options from the signature
    reaching: Reaching,
    words: list[str] = typer.Argument(
        None,
        metavar="[TARGET]...",
        help="Any process of the launch, hosts, or a saved case. Default: the launch on this machine.",
    ),
    pid: PidOption = 0,
    log: list[str] = typer.Option(
        [], "--log", help="A log of the launch that hangdoc does not find by itself. Repeatable."
    ),
    baseline: BaselineOption = "auto",
    causes: CausesOption = [],  # noqa: B006 - typer copies it
    stacks: StacksOption = Stacks.auto,
    deep: bool = typer.Option(
        False,
        "--deep",
        help="Then stop culprits and a few victims for up to 2 s each: native stacks, strace of a loop.",
    ),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds for the whole command."),
    json: JsonOption = False,
    as_markdown: MarkdownOption = False,
    save: SaveOption = "",
    redact: RedactOption = False,
    fail_on: FailOnOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Look once at a launch: is it slow or stuck, where, because of which rank, and what to do."""
    form, redaction = screen.form_of(json=json, as_markdown=as_markdown), Redaction(wanted=redact)
    targets = parse(words or [], pid)
    if targets.cases:
        if deep:
            raise exits.Stop("--deep looks at living processes, and this is a file")
        report = report_of_cases(targets.cases, baselines_of(baseline), known_causes(causes))
    else:
        options = Options(
            stacks=stacks is Stacks.auto,
            logs=tuple(log) if targets.hosts or not reaching.plain else existing(log),
            timeout_s=timeout,
            baselines=baselines_of(baseline),
            reasons=known_causes(causes),
        )
        live = form == "text" and screen.colour() and not redact
        kept = (Path(save), redaction) if save else None
        report = _look(targets, reaching, options, kept, live=live, deep=deep)
    screen.show(redaction.report(report), form, verbose=verbose)
    return exits.exit_status(report.verdict, fail_on.value if fail_on else None, lost_target=lost(report))


def lost(report: Report) -> bool:
    """Whether a host or a needed process could not be read, which leaves an undecided verdict open."""
    needed = {(row.host, row.pid) for row in report.processes if row.needed}
    if report.verdict == "undecided" and any(row.probe == REACH for row in report.unseen):
        return True
    return any(
        (row.host, row.pid) in needed
        and row.reason in ("denied", "timed-out")
        and row.probe in ("processes", "threads", "stacks")
        for row in report.unseen
    )


def _look(
    targets: Targets,
    reaching: Reaching,
    options: Options,
    kept: tuple[Path, Redaction] | None,
    *,
    live: bool,
    deep: bool,
) -> Report:
    started = time.monotonic()
    case: CaseWriter | RedactedCase | None = None
    save = kept[0] if kept else None
    try:
        with channel_to(targets, reaching) as channel:
            first = target.scan(channel)
            launch = target.choose(channel, first, pid_of(channel, targets))
            if kept:
                case = kept[1].case(kept[0], first, launch)
            left = max(1.0, options.timeout_s - (time.monotonic() - started))
            look = Look(channel, launch, first, replace(options, timeout_s=left), case)
            _follow(look, live=live)
            if deep:
                session_deep.run(look, screen.note, started + options.timeout_s)
            if look.case_error is not None:
                screen.note(f"hangdoc: {save} is incomplete: {look.case_error.strerror}; the report is not")
            return look.diagnosis.report(__version__)
    except KeyboardInterrupt:
        if case is not None:
            screen.note(f"hangdoc: what was seen so far is in {save}")
        raise
    finally:
        if case is not None:
            case.close()


def _follow(look: Look, *, live: bool) -> None:
    """Run the look; on a terminal show each provisional screen in place of the one before."""
    if not live:
        for _ in look.run():
            pass
        return
    with Live(console=Console(), transient=True, auto_refresh=False) as drawn:
        for _ in look.run():
            report = look.diagnosis.report(__version__, ended=False)
            text = terminal.render(report, width=screen.width(), colour=True)
            drawn.update(Text.from_ansi(text), refresh=True)
