"""`hangdoc ps`: launches found, their roles, ranks and phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..codec import encode
from ..model.frozen import replace
from ..model.launch import Launch
from ..model.places import own
from ..model.plain import to_plain
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
                screen.write(encode(plain(known)).decode() + "\n")
            else:
                phases = {one.member.pid: one.phase for one in look.diagnosis.pictures()}
                screen.write(table(known, first, phases, screen.width()))
    return exits.OK


def plain(launch: Launch) -> Any:
    """The launch as it is printed: process ids as their hosts know them, after the host where there are several."""
    if not any(one.host for one in launch.members.values()):
        return launch
    members = {
        f"{one.host}:{own(pid)}": replace(one, pid=own(pid), ppid=own(one.ppid)) for pid, one in launch.members.items()
    }
    nodes = tuple(replace(one, root=own(one.root)) for one in launch.nodes)
    rest = replace(launch, members={}, root=own(launch.root), nodes=nodes, wrappers=tuple(map(own, launch.wrappers)))
    return {**to_plain(rest), "members": members}


def table(launch: Launch, sample: Sample, phases: Mapping[int, str | None], width: int) -> str:
    """The members as lines of at most `width` columns; the title gives way."""
    hosts = len({one.host for one in launch.members.values()}) > 1
    rows = [("pid", "role", "rank", "phase", "age", "title")]
    for one in sorted(launch.members.values(), key=lambda one: (not one.needed, one.pid)):
        age = duration(sample.boot - one.start)
        title = clean(one.title, 200)
        rows.append(
            (
                (f"{one.host}:" if hosts else "") + str(own(one.pid)),
                one.role,
                str(one.rank),
                phases.get(one.pid) or "",
                age,
                title,
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    version = f" {launch.version}" if launch.version else ""
    port = f", port {launch.port}" if launch.port is not None else ""
    nodes = f", {len(launch.nodes)} of {launch.nodes_wanted} nodes seen" if launch.nodes else ""
    lines = [f"{launch.engine}{version}, root {target.name_of(launch)}{port}{nodes}"]
    for row in rows:
        cells = (cell.ljust(size) for cell, size in zip(row, widths, strict=False))
        lines.append("  ".join((*cells, row[-1]))[:width].rstrip())
    return "".join(f"{line}\n" for line in lines)
