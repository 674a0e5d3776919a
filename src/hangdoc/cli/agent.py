"""`hangdoc agent --dump FILE`: exactly what would be run on a host that is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import exits, screen


def command(
    dump: Annotated[
        Path,
        typer.Option("--dump", metavar="FILE", help="Write the agent (a zip of Python sources) here.", dir_okay=False),
    ],
) -> int:
    """Write what hangdoc would run on a host to a file, so that you can read it first."""
    from ..agent import bundle

    content: bytes = bundle.dump()
    try:
        dump.write_bytes(content)
    except OSError as error:
        raise exits.Stop(f"cannot write {dump}: {error.strerror}") from error
    screen.write(
        f"{dump}: {len(content):,} bytes; unzip -l {dump} lists the sources in it\n"
        f"on a host: python3 {dump.name} [PID] > HOST.case    here: hangdoc diagnose HOST.case\n"
    )
    return exits.OK
