"""`hangdoc report CASE`: render a case again."""

from __future__ import annotations

from pathlib import Path

import typer

from . import exits, screen
from .diagnose import lost
from .good import baselines_of
from .known import known_causes
from .options import BaselineOption, CausesOption, FailOnOption, JsonOption, MarkdownOption, RedactOption, VerboseOption
from .redacting import Redaction
from .replay import report_of_case


def command(
    case: Path = typer.Argument(..., help="A file that --save wrote."),
    json: JsonOption = False,
    as_markdown: MarkdownOption = False,
    baseline: BaselineOption = "auto",
    causes: CausesOption = [],  # noqa: B006 - typer copies it
    redact: RedactOption = False,
    fail_on: FailOnOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Judge a saved case again and print its report; nothing is looked at."""
    form = screen.form_of(json=json, as_markdown=as_markdown)
    found = report_of_case(case, baselines_of(baseline), known_causes(causes))
    screen.show(Redaction(wanted=redact).report(found), form, verbose=verbose)
    return exits.exit_status(found.verdict, fail_on.value if fail_on else None, lost_target=lost(found))
