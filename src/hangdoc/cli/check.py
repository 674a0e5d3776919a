"""`hangdoc check`: what can be seen here, and how to see more."""

from __future__ import annotations

import io

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.advice import fix_of
from ..hosts.tool import find_pyspy
from ..model.places import own
from ..model.sample import Sample
from ..report.safe import clean
from ..session import target
from ..session.look import Look, Options
from . import exits, screen
from .here import Reaching, channel_to
from .reaching import reaches
from .targets import live, pid_of


@reaches
def command(
    reaching: Reaching,
    words: list[str] = typer.Argument(None, metavar="[TARGET]...", help="Hosts, a process of the launch."),
) -> int:
    """Look at a launch with every probe and say what each could see. Nothing is judged and nothing is paused."""
    targets = live(words or [])
    with channel_to(targets, reaching) as channel:
        first = target.scan(channel)
        launch = target.choose(channel, first, pid_of(channel, targets))
        look = Look(channel, launch, first, Options())
        look.tick(stacks=False, budget_s=5.0)
        look.tick(stacks=True, budget_s=5.0)
        _show(look, first)
        return exits.UNDECIDED if look.diagnosis.history.unseen else exits.OK


def _show(look: Look, first: Sample) -> None:
    sink = io.StringIO()
    console = Console(
        file=sink, force_terminal=screen.colour(), width=screen.width(), highlight=False, markup=False, emoji=False
    )
    history = look.diagnosis.history
    facts = history.facts
    tracks = history.tracks.values()
    seen = {
        "processes": len(first.processes),
        "members of the launch": len(tracks),
        "threads": sum(len(one.process.threads or {}) for one in tracks),
        "system calls of threads": sum(
            t.syscall is not None for one in tracks for t in (one.process.threads or {}).values()
        ),
        "open descriptors": sum(len(one.process.fds or {}) for one in tracks),
        "Python stacks": sum(bool(one.stacks) for one in tracks),
        "sockets": len(history.sockets),
        "folders that it depends on": len(history.storage.places or ()),
        "lock files in its caches": len(history.storage.lock_files or ()),
        "network interfaces": sum(len(one.interfaces or ()) for one in history.networks),
        "GPUs on the bus": len(history.machine.gpus or ()) if history.machine else 0,
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, count in seen.items():
        table.add_row(Text(name), Text(str(count)))
    table.add_row(Text("py-spy"), Text(find_pyspy() or "none"))
    if facts is not None:
        table.add_row(
            Text("user"),
            Text(f"uid {facts.uid}" + (f", Yama ptrace_scope {facts.yama}" if facts.yama is not None else "")),
        )
    console.print(table)
    for one in history.unseen.values():
        who = f"process {own(one.pid)}: " if one.pid is not None else ""
        who = f"{one.host}: {who}" if one.host and len(history.places) > 1 else who
        console.print(Text(f"not seen: {one.probe} ({one.reason}): {who}{clean(one.detail, 200)}"))
        console.print(Text(f"          {fix_of(one)}", style="dim"))
    screen.write(sink.getvalue())
