"""`hangdoc ps`: launches found, their roles, ranks and phase."""

from __future__ import annotations

from collections.abc import Mapping

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..codec import encode
from ..hosts.channel import ChannelError
from ..hosts.local import LocalChannel
from ..model.launch import Launch
from ..model.sample import Sample
from ..report.safe import clean
from ..report.wording import duration
from ..session import target
from ..session.look import Look, Options
from . import exits
from .diagnose import columns


def command(
    pid: int = typer.Argument(
        0, metavar="[PID]", help="Only the launch that this process belongs to.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="One JSON object a launch."),
) -> int:
    """List the launches found here, with the role, rank and phase of every process."""
    channel = LocalChannel()
    try:
        first = target.scan(channel)
        found = [target.choose(channel, first, pid)] if pid else target.find(first)
        if not found:
            target.choose(channel, first, None)
        for launch in found:
            look = Look(channel, launch, first, Options())
            look.tick(stacks=True, budget_s=5.0)
            phases = {one.member.pid: one.phase for one in look.diagnosis.pictures()}
            _show(look.diagnosis.launch or launch, first, phases, json=json)
    except target.NoLaunch as error:
        raise exits.Stop(str(error), error.hint) from None
    except ChannelError as error:
        raise exits.Stop(f"this machine could not be read: {error}", error.last_words, exits.UNREACHABLE) from None
    finally:
        channel.close()
    return exits.OK


def _show(launch: Launch, sample: Sample, phases: Mapping[int, str | None], *, json: bool) -> None:
    if json:
        print(encode(launch).decode())
        return
    console = Console(width=columns(), highlight=False, markup=False, emoji=False)
    version = f" {launch.version}" if launch.version else ""
    console.print(Text(f"{launch.engine}{version}, root {launch.root}, port {launch.port}", style="bold"))
    table = Table(box=None, pad_edge=False)
    for name in ("pid", "role", "rank", "phase", "age", "title"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for member in sorted(launch.members.values(), key=lambda one: (not one.needed, one.pid)):
        age = duration(sample.boot - member.start)
        title = clean(member.title, 200)
        table.add_row(
            *map(Text, (str(member.pid), member.role, str(member.rank), phases.get(member.pid) or "", age, title))
        )
    console.print(table)
