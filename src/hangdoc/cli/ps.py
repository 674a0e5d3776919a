"""`hangdoc ps`: launches found, their roles, ranks and phase."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from ..codec import encode
from ..model.launch import Launch
from ..model.sample import Sample
from ..report.safe import clean
from ..report.wording import duration
from ..session import target
from ..session.look import Look, Options
from . import exits, screen
from .here import Reaching, channel_to
from .reaching import reaches
from .targets import live, pid_of


@reaches
def command(
    reaching: Reaching,
    words: list[str] = typer.Argument(
        None, metavar="[TARGET]...", help="Hosts, and a PID: only the launch that this process belongs to."
    ),
    json: bool = typer.Option(False, "--json", help="One JSON object a launch."),
) -> int:
    """List the launches found here, with the role, rank and phase of every process."""
    targets = live(words or [])
    with channel_to(targets, reaching) as channel:
        first = target.scan(channel)
        pid = pid_of(channel, targets)
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
                phases = {one.member.pid: one.phase for one in look.diagnosis.pictures()}
                screen.write(table(known, first, phases, screen.width()))
    return exits.OK


def table(launch: Launch, sample: Sample, phases: Mapping[int, str | None], width: int) -> str:
    """The members as lines of at most `width` columns; the title gives way."""
    rows = [("pid", "role", "rank", "phase", "age", "title")]
    for one in sorted(launch.members.values(), key=lambda one: (not one.needed, one.pid)):
        age = duration(sample.boot - one.start)
        title = clean(one.title, 200)
        rows.append((str(one.pid), one.role, str(one.rank), phases.get(one.pid) or "", age, title))
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    version = f" {launch.version}" if launch.version else ""
    port = f", port {launch.port}" if launch.port is not None else ""
    lines = [f"{launch.engine}{version}, root {launch.root}{port}"]
    for row in rows:
        cells = (cell.ljust(size) for cell, size in zip(row, widths, strict=False))
        lines.append("  ".join((*cells, row[-1]))[:width].rstrip())
    return "".join(f"{line}\n" for line in lines)
