"""`hangdoc report CASE`: render a case again."""

from __future__ import annotations

from pathlib import Path

import typer

from . import exits, screen
from .diagnose import lost
from .good import baselines_of
from .options import FailOn
from .replay import report_of_case


def command(
    case: Path = typer.Argument(..., help="A file that --save wrote."),
    json: bool = typer.Option(False, "--json", help="Print the report as one JSON object (docs/report.md)."),
    as_markdown: bool = typer.Option(
        False, "--markdown", help="Print it fit for an issue: redacted, raw stacks folded."
    ),
    baseline: str = typer.Option(
        "auto",
        "--baseline",
        metavar="NAME|FILE|auto|none",
        help="The good start to hold it against; auto: the nearest.",
    ),
    fail_on: FailOn | None = typer.Option(None, "--fail-on", help="End with status 1 on this verdict, too."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show every rank, process, log and stack."),
) -> int:
    """Judge a saved case again and print its report; nothing is looked at."""
    form = screen.form_of(json=json, as_markdown=as_markdown)
    found = report_of_case(case, baselines_of(baseline))
    screen.show(found, form, verbose=verbose)
    return exits.exit_status(found.verdict, fail_on.value if fail_on else None, lost_target=lost(found))
