"""Where results go: width and colour of standard output, and notes on standard error."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from typing import Any, Literal

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
    if form == "markdown":
        from ..report import markdown  # jinja2 is slow to import, and few ask for this form

        write(markdown.render(report))
    else:
        from ..report import terminal  # rich is slow to import, and not every command draws

        write(terminal.render(report, width=width(), colour=colour(), verbose=verbose))


def form_of(*, json: bool, as_markdown: bool) -> Form:
    """The form that the options --json and --markdown ask for. Raises Stop when both are given."""
    if json and as_markdown:
        raise exits.Stop("--json and --markdown exclude each other")
    return "json" if json else "markdown" if as_markdown else "text"


def prepare() -> None:
    """Make 0 to 2 usable: closed ones become /dev/null, so that no file of ours is opened as standard output; a character
    that the terminal cannot show becomes an escape instead of an exception."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # Python found it closed
            setattr(sys, name, open(1 if name == "stdout" else 2, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write results to standard output. When nobody reads them any more they are dropped, and the status stays.

    Raises Stop when they are lost for another reason, such as a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_results()
    except OSError as error:
        _drop_results()
        message = f"the results could not be written to standard output: {error.strerror}"
        raise exits.Stop(message, status=exits.NOT_WRITTEN) from None


def _drop_results() -> None:
    """Let what is still buffered go nowhere, also when Python flushes at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def note(text: str) -> None:
    """Tell a person what goes on, on standard error; when that cannot be written there is nobody to tell."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
