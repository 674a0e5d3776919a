"""`hangdoc baselines list|show|compare`: what is on record, and how two good starts differ."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import typer

from ..analysis import nearest
from ..analysis.quantiles import known, quantile
from ..baselines import store
from ..engines import load
from ..model.baseline import Baseline
from ..report.safe import clean
from . import exits, screen

_LINES = 30


class Action(str, Enum):
    """What to do."""

    list = "list"
    show = "show"
    compare = "compare"


def command(
    action: Action = typer.Argument(Action.list, help="list, show NAME, compare A B"),
    names: list[str] = typer.Argument(None, metavar="[NAME|FILE]...", help="A baseline's name, or a file."),
) -> int:
    """List, show or compare the good starts on record."""
    names = names or []
    wanted = {Action.list: 0, Action.show: 1, Action.compare: 2}[action]
    if len(names) != wanted:
        raise exits.Stop(f"baselines {action.value} takes {wanted} names, not {len(names)}", "hangdoc baselines --help")
    if action is Action.list:
        screen.write("".join(f"{row}\n" for row in _list()))
        return exits.OK
    try:
        found = [store.read(store.find(name)) for name in names]
    except store.BaselineError as error:
        raise exits.Stop(str(error), "hangdoc baselines list") from None
    rows = _show(found[0]) if action is Action.show else _compare(*found)
    screen.write("".join(f"{clean(row, 200)}\n" for row in rows))
    return exits.OK


def _list() -> Iterator[str]:
    files = store.names()
    if not files:
        yield f"nothing is on record; hangdoc record-baseline NAME writes to {store.user_folder()}"
    for name, path in files.items():
        try:
            one = store.read(path)
        except store.BaselineError as error:
            yield f"{name}  cannot be used: {clean(str(error), 300)}"
            continue
        times = known(run.ready_s for run in one.runs)
        ready = f"ready after {_span(times)} s" if times else "no time"
        yield clean(f"{name}  {_title(one)}  {one.provenance.kind}, {_runs(one)}, {ready}", 200)


def _title(one: Baseline) -> str:
    now = one.configuration
    sizes = [f"TP {now.args['tensor-parallel-size']}"] if "tensor-parallel-size" in now.args else []
    return " ".join(word for word in (now.engine, now.version or "", now.model or "", *sizes) if word)


def _runs(one: Baseline) -> str:
    return f"{len(one.runs)} run{'s' if len(one.runs) != 1 else ''}"


def _span(values: list[float]) -> str:
    low, high = f"{values[0]:.0f}", f"{values[-1]:.0f}"
    return low if low == high else f"{low} to {high}"


def _show(one: Baseline) -> Iterator[str]:
    now = one.configuration
    yield f"{one.name}: {_title(one)}"
    yield f"{one.provenance.kind}, {_runs(one)}" + (
        f"; source {one.provenance.source}" if one.provenance.source else ""
    )
    if one.provenance.note:
        yield one.provenance.note
    yield "arguments: " + (
        " ".join(f"--{name} {value}".rstrip() for name, value in now.args.items()) or "none that matter"
    )
    hardware = now.hardware
    cards = (
        "no accelerator"
        if hardware.accelerator == "none"
        else f"{hardware.accelerators or '?'} x {hardware.accelerator or '?'}"
    )
    yield f"hardware: {cards}, {hardware.cpus or '?'} CPUs, {hardware.arch or 'unknown machine'}"
    for run in one.runs:
        facts = [f"{run.at} by {run.by}{', partial' if run.partial else ''}"]
        facts += [f"ready after {run.ready_s:.1f} s"] if run.ready_s is not None else []
        facts += [f"{run.lines} lines"] if run.lines is not None else []
        facts += [f"{run.bytes:,} bytes"] if run.bytes is not None else []
        facts += [f"{run.caches} caches"] if run.caches != "unknown" else []
        facts += [f"{run.read_bytes >> 20:,} MiB from storage"] if run.read_bytes is not None else []
        facts += [f"at least {run.compiled} compilers"] if run.compiled else []
        facts += ["the model was downloaded"] if run.downloaded else []
        yield "  run " + ", ".join(facts)
    yield f"{'phase':<18}{'p50':>9}{'p95':>9}  each run"
    for row in one.phases:
        took = known(row.duration_s)
        if took:
            each = " ".join("-" if value is None else f"{value:.1f}" for value in row.duration_s)
            yield f"{row.id:<18}{row.p50_s:>8.1f}s{row.p95_s:>8.1f}s  {each}"
    yield f"{len(one.lines)} kinds of lines, {sum(None in line.first_s for line in one.lines)} of them not in every run"


def _compare(one: Baseline, other: Baseline) -> Iterator[str]:
    yield f"A {one.name}: {_title(one)}, {_runs(one)}"
    yield f"B {other.name}: {_title(other)}, {_runs(other)}"
    held = nearest.hold(one, other.configuration, load.profiles()[other.configuration.engine])
    for difference in held.differences:
        yield f"  B beside A: {difference.words}"
    yield f"{'phase':<18}{'A p50':>10}{'B p50':>10}{'B - A':>10}"
    here, there = ({row.id: known(row.duration_s) for row in side.phases} for side in (one, other))
    for phase in dict.fromkeys((*here, *there)):
        a, b = (quantile(side[phase], 0.5) if side.get(phase) else None for side in (here, there))
        apart = f"{b - a:+.1f}s" if a is not None and b is not None else ""
        yield f"{phase:<18}{_seconds(a):>10}{_seconds(b):>10}{apart:>10}"
    times = [known(run.ready_s for run in side.runs) for side in (one, other)]
    a, b = (quantile(values, 0.5) if values else None for values in times)
    yield f"{'ready':<18}{_seconds(a):>10}{_seconds(b):>10}"
    texts = [{line.text for line in side.lines} for side in (one, other)]
    if all(texts):
        for label, only in (("A", texts[0] - texts[1]), ("B", texts[1] - texts[0])):
            yield f"lines only in {label}: {len(only)}"
            yield from (f"  {text[:150]}" for text in sorted(only)[:_LINES])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}s"
