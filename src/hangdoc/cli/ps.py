"""`hangdoc ps`: launches found, their roles, ranks and phase."""

from __future__ import annotations

from collections.abc import Mapping

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..codec import encode
from ..model.launch import Launch
from ..model.sample import Sample
from ..report.safe import clean
from ..report.wording import duration
from ..session import target
from ..session.look import Look, Options
from . import exits, screen
from .here import this_machine


def command(
    pid: int = typer.Argument(
        0, metavar="[PID]", help="Only the launch that this process belongs to.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="One JSON object a launch."),
) -> int:
    """List the launches found here, with the role, rank and phase of every process."""
    with this_machine() as channel:
        first = target.scan(channel)
        found = (
            [target.choose(channel, first, pid)] if pid else target.find(first) or [target.choose(channel, first, None)]
        )
        for launch in found:
            look = Look(channel, launch, first, Options())
            look.tick(stacks=True, budget_s=5.0)
            known = look.diagnosis.launch or launch
            if json:
                screen.write(encode(known).decode() + "\n")
            else:
                screen.write(_table(known, first, {one.member.pid: one.phase for one in look.diagnosis.pictures()}))
    return exits.OK


def _table(launch: Launch, sample: Sample, phases: Mapping[int, str | None]) -> str:
    console = Console(width=screen.width(), highlight=False, markup=False, emoji=False)
    version = f" {launch.version}" if launch.version else ""
    table = Table(box=None, pad_edge=False)
    for name in ("pid", "role", "rank", "phase", "age"):
        table.add_column(name, no_wrap=True, min_width=4)
    table.add_column("title", no_wrap=True, overflow="ellipsis")
    for member in sorted(launch.members.values(), key=lambda one: (not one.needed, one.pid)):
        age = duration(sample.boot - member.start)
        cells = (member.pid, member.role, member.rank, phases.get(member.pid) or "", age, clean(member.title, 200))
        table.add_row(*(Text(str(cell)) for cell in cells))
    with console.capture() as drawn:
        console.print(Text(f"{launch.engine}{version}, root {launch.root}, port {launch.port}", style="bold"))
        console.print(table)
    return drawn.get()
