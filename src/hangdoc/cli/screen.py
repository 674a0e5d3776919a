"""Where results go: width and colour of standard output, and notes on standard error."""

from __future__ import annotations

import os
import shutil
import sys

from ..model.report import Report


def width() -> int:
    """Columns of the terminal (COLUMNS overrides it), 100 when there is none."""
    return shutil.get_terminal_size((100, 40)).columns


def colour() -> bool:
    """Whether standard output is a terminal that wants colour; see https://no-color.org."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(report: Report, *, verbose: bool = False) -> None:
    """Write a report to standard output, as text that fits it."""
    from ..report import terminal  # rich is slow to import, and not every command draws

    write(terminal.render(report, width=width(), colour=colour(), verbose=verbose))


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
