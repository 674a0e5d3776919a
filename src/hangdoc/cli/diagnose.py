"""`hangdoc diagnose`: one look, one report."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from .. import __version__
from ..codec import report_json
from ..hosts.channel import ChannelError
from ..hosts.local import LocalChannel
from ..model.report import Report
from ..report import markdown, terminal
from ..session import target
from ..session.casefile import CaseWriter, Header
from ..session.look import Look, Options
from . import exits
from .options import FailOn, Stacks, open_case
from .replay import report_of_case


def command(  # noqa: PLR0913, PLR0917 - typer reads the options from the signature
    target_: str = typer.Argument(
        "",
        metavar="[PID | CASE]",
        help="Any process of the launch, or a saved case. Default: the launch on this machine.",
    ),
    pid: int = typer.Option(0, "--pid", help="The same as a PID target.", show_default=False),
    log: list[str] = typer.Option(
        [], "--log", help="A log of the launch that hangdoc does not find by itself. Repeatable."
    ),
    stacks: Stacks = typer.Option(Stacks.auto, help="Python stacks with py-spy --nonblocking, which pauses nothing."),
    timeout: float = typer.Option(60.0, min=1.0, help="Seconds for the whole command."),
    json: bool = typer.Option(False, "--json", help="Print the report as one JSON object (docs/report.md)."),
    as_markdown: bool = typer.Option(
        False, "--markdown", help="Print it fit for an issue: redacted, raw stacks folded."
    ),
    save: str = typer.Option(
        "", "--save", metavar="CASE", help="Keep everything that was seen in a new file, mode 0600."
    ),
    fail_on: FailOn | None = typer.Option(None, "--fail-on", help="End with status 1 on this verdict, too."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show every rank, process, log and stack."),
) -> int:
    """Look once at a launch: is it slow or stuck, where, because of which rank, and what to do."""
    given = str(pid) if pid else target_
    if given and not given.isdigit():
        report = report_of_case(Path(given))
    else:
        options = Options(stacks=stacks is Stacks.auto, logs=tuple(log), timeout_s=timeout)
        report = _live(int(given) if given else None, options, save, screen=not (json or as_markdown))
    show(report, json=json, as_markdown=as_markdown, verbose=verbose)
    return exits.exit_status(report.verdict, fail_on.value if fail_on else None)


def show(report: Report, *, json: bool, as_markdown: bool, verbose: bool) -> None:
    """Print a report in the form asked for."""
    if json:
        print(report_json(report))
    elif as_markdown:
        print(markdown.render(report), end="")
    else:
        colour = sys.stdout.isatty()
        print(terminal.render(report, width=columns(), colour=colour, verbose=verbose), end="")


def columns() -> int:
    """Width of the terminal, 100 without one."""
    return shutil.get_terminal_size((100, 40)).columns


def _live(pid: int | None, options: Options, save: str, *, screen: bool) -> Report:
    started = time.monotonic()
    channel = LocalChannel()
    case: CaseWriter | None = None
    try:
        first = target.scan(channel)
        launch = target.choose(channel, first, pid)
        if save:
            case = open_case(Path(save), Header("hangdoc.case/1", __version__, first.at, launch.root, launch.host))
        left = max(1.0, options.timeout_s - (time.monotonic() - started))
        look = Look(channel, launch, first, Options(options.stacks, options.logs, left), case)
        _follow(look, screen=screen and sys.stdout.isatty())
        if look.case_error is not None:
            print(
                f"hangdoc: {save} is incomplete: {look.case_error.strerror}; the report below is not", file=sys.stderr
            )
        return look.diagnosis.report(__version__)
    except target.NoLaunch as error:
        raise exits.Stop(str(error), error.hint, exits.USAGE) from None
    except ChannelError as error:
        raise exits.Stop(f"this machine could not be read: {error}", error.last_words, exits.UNREACHABLE) from None
    finally:
        if case is not None:
            case.close()
        channel.close()


def _follow(look: Look, *, screen: bool) -> None:
    """Run the look; on a terminal show each provisional screen in place of the one before."""
    if not screen:
        for _ in look.run():
            pass
        return
    with Live(console=Console(), transient=True, auto_refresh=False) as live:
        for _ in look.run():
            report = look.diagnosis.report(__version__, ended=False)
            live.update(Text.from_ansi(terminal.render(report, width=columns(), colour=True)), refresh=True)
