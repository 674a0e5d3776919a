"""Options that several commands have, and what they mean. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..model.launch import Launch
from ..model.sample import Sample
from ..session.casefile import CASE_SCHEMA, CaseWriter, Header
from . import exits


class Stacks(str, Enum):
    """Whether Python stacks are read."""

    auto = "auto"
    none = "none"


class FailOn(str, Enum):
    """The mildest verdict that ends with status 1."""

    slow = "slow"
    suspect = "suspect"


PidOption = Annotated[int, typer.Option("--pid", help="The same as a PID target.", show_default=False)]
BaselineOption = Annotated[
    str,
    typer.Option(
        "--baseline",
        metavar="NAME|FILE|auto|none",
        help="The good start to hold it against; auto: the nearest.",
    ),
]
CausesOption = Annotated[
    list[str],
    typer.Option("--causes", metavar="DIR", help="A folder with known causes of your own. Repeatable."),
]
StacksOption = Annotated[
    Stacks, typer.Option("--stacks", help="Python stacks with py-spy --nonblocking, which pauses nothing.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the report as one JSON object (docs/report.md).")]
MarkdownOption = Annotated[
    bool, typer.Option("--markdown", help="Print it fit for an issue: redacted, raw stacks folded.")
]
SaveOption = Annotated[
    str, typer.Option("--save", metavar="CASE", help="Keep everything that was seen in a new file, mode 0600.")
]
RedactOption = Annotated[
    bool, typer.Option("--redact", help="Take hosts, addresses, users and folders out, of a saved case too.")
]
FailOnOption = Annotated[FailOn | None, typer.Option("--fail-on", help="End with status 1 on this verdict, too.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every rank, process, log and stack in the report.")
]


def existing(logs: list[str]) -> tuple[str, ...]:
    """The logs that were named. Raises Stop for one that is not there: the name is mistyped."""
    for log in logs:
        if not Path(log).exists():
            raise exits.Stop(f"there is no file {log}", "--log takes the path of a log on this machine", exits.USAGE)
    return tuple(logs)


def open_case(path: Path, first: Sample, launch: Launch, name: Callable[[str], str] = str) -> CaseWriter:
    """A new case file for a launch, first seen in `first`; `name` gives what a host is called in it.

    Raises Stop with what is wrong with the path.
    """
    hosts = tuple(name(one.host) for one in first.places)
    try:
        return CaseWriter(path, Header(CASE_SCHEMA, __version__, first.at, launch.root, name(launch.host), hosts))
    except FileExistsError:
        raise exits.Stop(
            f"{path} exists already", "a case is never overwritten: choose another name", exits.USAGE
        ) from None
    except OSError as error:
        raise exits.Stop(f"{path} cannot be written: {error.strerror}", "", exits.USAGE) from None
