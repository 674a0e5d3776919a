"""What `-v` adds to the screen: every rank, process, port, log, stack, channel, wait and blind spot, one part each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..model.report import End, Report, StackNode
from .picture import causes_undecided, several_hosts
from .safe import clean
from .wording import LOG_VIA_WORDS, MECHANISM_WORDS, REASON_WORDS, duration, fold_labels, plural, rate, size

_DEEPEST = 60  # frames; deeper ones are recursion and are only counted
_STACK_LINES = 400


def parts(report: Report) -> Iterator[RenderableType]:
    """The parts that have something in them, each with its heading."""
    makers = (_ranks, _processes, _ports, _logs, _stacks, _progress, _waits, _phases, _undecided, _unseen, _about)
    for make in makers:
        yield from make(report)


def stack_lines(nodes: list[StackNode], depth: int = 0) -> Iterator[str]:
    """The merged tree, outermost frame first, indented; where ranks part, each branch says who is in it."""
    if depth >= _DEEPEST:
        yield f"{'  ' * depth}deeper frames left out"
        return
    for node in nodes:
        who = f"  [{fold_labels(node.present)}]" if depth == 0 or len(nodes) > 1 or node.absent else ""
        yield f"{'  ' * depth}{node.function} ({node.file}:{node.line}){who}"
        yield from stack_lines(node.children, depth + 1)


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[RenderableType]:
    listed = [[Text(clean(cell)) for cell in row] for row in rows]
    if not listed:
        return
    table = Table(title=f"\n{title}", title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", header_style="dim")
    for row in listed:
        table.add_row(*row)
    yield table


def _lines(title: str, lines: Iterable[str], limit: int = 400) -> Iterator[RenderableType]:
    listed = [Text(clean(line, limit)) for line in lines]
    if listed:
        yield Text(f"\n{title}", style="italic")
        yield from listed


def _ranks(report: Report) -> Iterator[RenderableType]:
    hosts = several_hosts(report)
    rows = (
        ((row.host,) if hosts else ()) + (f"{row.role} {row.rank}".strip(), str(row.pid), row.phase or "?")
        + (MECHANISM_WORDS[row.mechanism], str(row.group))
        for row in report.ranks
    )  # fmt: skip
    yield from _table("Ranks", (*(("host",) if hosts else ()), "who", "pid", "phase", "what it does", "group"), rows)


def _processes(report: Report) -> Iterator[RenderableType]:
    hosts = several_hosts(report)
    rows = (
        (
            *((row.host,) if hosts else ()),
            str(row.pid) + (f" ({row.nspid})" if row.nspid not in {None, row.pid} else ""),
            row.role + ("" if row.needed else " (not needed)"),
            row.state,
            "?" if row.cpu_pct is None else f"{row.cpu_pct:.0f} %",
            size(row.rss) if row.rss is not None else "?",
            "?" if row.threads is None else str(row.threads),
            row.title[:120],
        )
        for row in report.processes
    )
    host = ("host",) if hosts else ()
    yield from _table("Processes", (*host, "pid", "role", "state", "cpu", "memory", "threads", "title"), rows)


def _ports(report: Report) -> Iterator[RenderableType]:
    rows = ((row.host, str(row.port), str(row.pid or ""), row.state, row.health or "") for row in report.ports)
    yield from _table("Ports", ("host", "port", "pid", "state", "health"), rows)


def _logs(report: Report) -> Iterator[RenderableType]:
    for log in report.logs:
        lines = "" if log.lines is None else f", {plural(log.lines, 'line')}"
        count = "" if log.bytes is None else f", {plural(log.bytes, 'byte')}"
        grown = "" if log.last_growth_s is None else f", last grew {duration(log.last_growth_s)} ago"
        note = f"; {log.note}" if log.note else ""
        title = f"Log {log.path} ({LOG_VIA_WORDS[log.via]}{lines}{count}{grown}{note})"
        yield from _lines(clean(title, 600), [f"  {line}" for line in log.tail] or ["  (nothing read)"])


def _stacks(report: Report) -> Iterator[RenderableType]:
    lines = [line for _, line in zip(range(_STACK_LINES), stack_lines(report.stacks), strict=False)]
    yield from _lines("Stacks, merged over ranks", (f"  {line}" for line in lines))


def _progress(report: Report) -> Iterator[RenderableType]:
    rows = (
        (
            row.channel,
            row.kind,
            "moved" if row.moved else "still",
            rate(row.rate, row.unit),
            "" if row.eta_s is None else duration(row.eta_s),
            row.detail,
        )
        for row in report.progress
    )
    yield from _table("Progress", ("channel", "class", "", "rate", "left", "detail"), rows)


def _end(end: End, *, hosts: bool) -> str:
    thread = f"/{end.tid}" if end.tid is not None and end.tid != end.pid else ""
    return (f"{end.host}:" if hosts else "") + f"{end.pid}{thread}"


def _waits(report: Report) -> Iterator[RenderableType]:
    hosts = several_hosts(report)
    rows = (
        (
            _end(wait.source, hosts=hosts),
            wait.via,
            (" or " if wait.any else ", ").join(_end(end, hosts=hosts) for end in wait.target)
            if wait.target
            else "nobody known",
            wait.object or "",
            "" if wait.deadline_s is None else f"wakes in {duration(wait.deadline_s)}",
            wait.certainty,
        )
        for wait in report.waits
    )
    yield from _table("Waits", ("from", "via", "to", "object", "deadline", ""), rows)


def _phases(report: Report) -> Iterator[RenderableType]:
    if report.baseline is None:
        return
    rows = (
        (row.id, "?" if row.now_s is None else duration(row.now_s), duration(row.p50_s), duration(row.p95_s))
        for row in report.baseline.phases
    )
    yield from _table(f"Beside the baseline {clean(report.baseline.name, 80)}", ("phase", "now", "p50", "p95"), rows)
    yield from _lines(
        "Lines that good starts had printed by now", (f"  {line}" for line in report.baseline.missing_lines)
    )
    yield from _lines("Lines that no good start printed", (f"  {line}" for line in report.baseline.extra_lines))
    yield from _lines("The baseline differs in", (f"  {line}" for line in report.baseline.distance))


def _undecided(report: Report) -> Iterator[RenderableType]:
    rows = ((row.id, ", ".join(row.missing)) for row in causes_undecided(report))
    yield from _table("Causes that could not be judged", ("cause", "missing facts"), rows)


def _unseen(report: Report) -> Iterator[RenderableType]:
    rows = (
        (row.probe, "" if row.pid is None else str(row.pid), REASON_WORDS[row.reason], row.detail, row.fix)
        for row in report.unseen
    )
    yield from _table("Unseen", ("probe", "pid", "reason", "detail", "how to see it"), rows)


def _about(report: Report) -> Iterator[RenderableType]:
    about, cost = report.hangdoc, report.cost
    paused = sum(cost.paused_ms.values())
    line = (
        f"hangdoc {about.version}, {plural(about.samples, 'sample')} over {duration(about.window_s)} ({about.mode}); "
        f"cost {duration(cost.wall_s)} and {cost.cpu_s:.2f} s of CPU; target paused for {paused:.0f} ms"
    )
    yield from _lines("About this look", [f"  {line}"])
    arguments = [f"  --{name} {value}".rstrip() for name, value in sorted(report.engine.args.items())]
    yield from _lines("Arguments", arguments)
    yield from _lines("Files that differ from the installed wheel", (f"  {path}" for path in report.engine.modified))
