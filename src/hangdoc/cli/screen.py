"""Where results go: width and colour of standard output, and notes on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

from ..codec import report_json
from ..model.report import Report
from . import exits

Form = Literal["text", "json", "markdown"]


def width() -> int:
    """Columns of the terminal (COLUMNS overrides it), 100 when there is none."""
    return shutil.get_terminal_size((100, 40)).columns


def colour() -> bool:
    """Whether standard output is a terminal that wants colour; see https://no-color.org."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(report: Report, form: Form = "text", *, verbose: bool = False) -> None:
    """Write a report to standard output: as text that fits it, one line of JSON, or Markdown fit for an issue."""
    if form == "json":
        write(report_json(report) + "\n")
        return
    from ..report import markdown, terminal  # rich and jinja2 are slow to import, and not every command draws

    if form == "markdown":
        write(markdown.render(report))
    else:
        write(terminal.render(report, width=width(), colour=colour(), verbose=verbose))


def form_of(*, json: bool, as_markdown: bool) -> Form:
    """The form that the options --json and --markdown ask for. Raises Stop when both are given."""
    if json and as_markdown:
        raise exits.Stop("--json and --markdown exclude each other")
    return "json" if json else "markdown" if as_markdown else "text"


def write(text: str) -> None:
    """Write results to standard output. When nobody reads them any more they are dropped, and the status stays."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Tell a person what goes on, on standard error."""
    print(text, file=sys.stderr, flush=True)
