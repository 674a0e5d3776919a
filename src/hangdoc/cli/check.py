"""`hangdoc check`: what can be seen here, and how to see more."""

from __future__ import annotations

import io

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.advice import fix_of
from ..hosts.tool import find_pyspy
from ..model.ask import Ask
from ..model.places import own
from ..model.sample import HostFacts, Sample, Unseen
from ..report.safe import clean
from ..session import target
from ..session.look import Look, Options
from . import exits, screen
from .here import Reaching, channel_to
from .reaching import reaches
from .targets import live, pid_of

OF_HOSTS = ("scan", "host", "machine")  # what hosts tell before a launch runs on them


@reaches
def command(
    reaching: Reaching,
    words: list[str] = typer.Argument(None, metavar="[TARGET]...", help="Hosts, a process of the launch."),
) -> int:
    """Look at a launch with every probe, or at hosts on which none runs yet, and say what could be seen. Nothing is judged and
    nothing is paused."""
    targets = live(words or [])
    with channel_to(targets, reaching) as channel:
        first = target.scan(channel)
        named = pid_of(channel, targets)
        if named is None and not target.find(first):
            return _show_hosts(channel.ask(Ask(1, OF_HOSTS, deadline_s=10.0)))
        look = Look(channel, target.choose(channel, first, named), first, Options())
        look.tick(stacks=False, budget_s=5.0)
        look.tick(stacks=True, budget_s=5.0)
        return _show_launch(look, first)


def _show_launch(look: Look, first: Sample) -> int:
    history = look.diagnosis.history
    tracks = history.tracks.values()
    seen: dict[str, object] = {
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
        "GPUs on the bus": sum(len(one.gpus or ()) for one in history.machines.values()),
    }
    rights = _rights(history.root_facts) if history.root_facts is not None else {}
    rows = {**seen, "py-spy": find_pyspy() or "none", **rights}
    return _show([rows], list(history.unseen.values()), several=len(history.places) > 1)


def _show_hosts(sample: Sample) -> int:
    """What can be seen of hosts on which no launch is seen, so before one is started."""
    machines = sample.machines_by_place
    screen.write("no vLLM or SGLang launch runs here that this user can see; of what one needs, this can be seen:\n")
    tables, hidden = [], list(sample.unseen)
    for place, one in sorted(sample.facts_by_place.items()):
        host = sample.places[place].host if place < len(sample.places) else ""
        gpus = len(machines[place].gpus or ()) if place in machines else 0
        name = {"host": clean(host, 100)} if host else {}
        about = f"Linux {clean(one.kernel, 60)}, Python {clean(one.python, 20)}"
        tables.append({**name, "system": about, "GPUs on the bus": gpus, **_rights(one)})
        if one.uid and one.yama:
            detail = f"Yama ptrace_scope {one.yama}: system calls, locks and stacks of processes that it did not start itself"
            hidden.append(Unseen("threads", "denied", detail, host=host))
    here: dict[str, object] = {"processes": len(sample.processes), "py-spy": find_pyspy() or "none"}
    tables = [{**tables[0], **here}] if len(tables) == 1 else [*tables, here]
    return _show(tables, hidden, several=len(sample.places) > 1)


def _rights(facts: HostFacts) -> dict[str, object]:
    return {"user": f"uid {facts.uid}" + (f", Yama ptrace_scope {facts.yama}" if facts.yama is not None else "")}


def _show(tables: list[dict[str, object]], unseen: list[Unseen], *, several: bool) -> int:
    """Tables, then what was not seen and how to see it. The exit status. `several`: there are several hosts to name."""
    sink = io.StringIO()
    console = Console(
        file=sink, force_terminal=screen.colour(), width=screen.width(), highlight=False, markup=False, emoji=False
    )
    for rows in tables:
        table = Table(box=None, pad_edge=False, show_header=False)
        for name, value in rows.items():
            table.add_row(Text(name), Text(str(value)))
        console.print(table)
    for one in unseen:
        who = f"process {own(one.pid)}: " if one.pid is not None else ""
        who = f"{one.host}: {who}" if one.host and several else who
        console.print(Text(f"not seen: {one.probe} ({one.reason}): {who}{clean(one.detail, 200)}"))
        console.print(Text(f"          {fix_of(one)}", style="dim"))
    screen.write(sink.getvalue())
    return exits.UNDECIDED if unseen else exits.OK
