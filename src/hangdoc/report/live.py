"""The live screen of `watch`: phases with their times, a row for each needed member, log, ports, verdict. Moment in, text out.

It is drawn again and again beside a start that is to have the machine for itself. So its lines and columns, whose widths
are known, are laid out here, and rich only colours them: its tables and flowing texts take several times as long.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

from ..model.report import ProcessRow, RankRow, Report
from ..model.watching import Moment, PhaseStep
from .picture import clocks, headline, label, lost_hosts, several_hosts
from .safe import clean
from .terminal import NARROWEST, STYLES, WIDEST
from .wording import CERTAINTY_WORDS, MECHANISM_WORDS, duration, size

_STEP = {"done": "green", "now": "bold", "next": "dim"}
_ROWS = 16  # members that get a row of their own; the others are counted
_LOST = 3  # hosts that are named
_LABEL = 9  # columns of "Next line"
_GAP = "  "  # between two columns
_MOVES_S = 2.0  # quiet for less than this is moving
_WORD = re.compile(" *[^ ]+")

Piece = tuple[str, str]  # text, style


def render(moment: Moment, *, width: int = 80, height: int = 40, colour: bool = False) -> str:
    """The screen as text. `width` in columns, held between 60 and 200."""
    sink = io.StringIO()
    wide = max(NARROWEST, min(WIDEST, width))
    console = Console(
        file=sink, width=wide, force_terminal=colour, color_system="standard" if colour else None, no_color=not colour,
        highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    console.print(screen(moment, width=wide, height=height))
    return "".join(f"{line.rstrip()}\n" for line in sink.getvalue().splitlines())


def screen(moment: Moment, *, width: int, height: int = 40) -> Segments:
    """The same for a rich console."""
    report, empty = moment.report, [("", "")]
    lines: list[Sequence[Piece]] = [
        line for text in (*_head(moment), _phases(moment.phases)) for line in _flow(text, width)
    ]
    lines += [empty, *_members(report, width, max(4, min(_ROWS, height - 18))), empty]
    for name, text, style in _facts(moment, lines=max(1, min(8, height - 24))):
        lines.append(((f"{name:<{_LABEL}}{_GAP}", "bold"), (_fit(text, width - _LABEL - 4), style)))
    pieces = (piece for line in lines for piece in (*line, ("\n", "")))
    return Segments([Segment(text, Style.parse(style)) for text, style in pieces])


def _flow(text: Iterable[Piece], width: int) -> Iterator[list[Piece]]:
    """A text in lines of so many columns, broken at spaces, or within a word that is longer than a line."""
    line: list[Piece] = []
    used = 0
    for piece, style in text:
        for word in _WORD.findall(piece):
            size = cell_len(word)
            if used + size > width:
                if line:
                    yield line
                *full, rest = chop_cells(word.lstrip(" "), width)
                yield from ([(part, style)] for part in full)
                line, used = [(rest, style)], cell_len(rest)
            else:
                line.append((word, style))
                used += size
    yield line


def _fit(text: str, cells: int, *, right: bool = False) -> str:
    """A text in so many columns of the terminal; one that is longer ends in an ellipsis."""
    size = cell_len(text)
    if size > cells:
        return set_cell_size(text, cells - 1) + "\N{HORIZONTAL ELLIPSIS}"
    return " " * (cells - size) + text if right else text + " " * (cells - size)


def _head(moment: Moment) -> Iterator[list[Piece]]:
    report = moment.report
    style = STYLES[report.verdict]
    first = [(report.verdict.upper(), style)]
    if report.verdict != "undecided":
        first.append((f" ({CERTAINTY_WORDS[report.confidence]})", style.removeprefix("bold ")))
    yield [*first, (f"  {clean(headline(report), 200)}", "")]
    yield [(clean(report.summary, 600), "")]
    if moment.why_not_more:
        yield [(f"Not called a hang: {clean(moment.why_not_more)}.", "yellow")]
    if report.retracted:
        yield [(f"Earlier it looked {report.retracted}; that is taken back.", "yellow")]
    yield []


def _phases(steps: Sequence[PhaseStep]) -> Iterator[Piece]:
    """One flowing text: done with what each took, the present one in brackets, the rest by name."""
    for number, step in enumerate(steps):
        if number:
            yield " >", "dim"
        took = f" {duration(step.took_s)}" if step.took_s is not None else ""
        words = f"{step.id}{took}"
        if step.state == "now":
            limit = f" of {duration(step.expected_s)}" if step.expected_s and step.took_s is not None else ""
            words = f"[{words}{limit}]"
        # A name and its time stay on one line.
        yield " " * bool(number) + words.replace(" ", "\N{NO-BREAK SPACE}"), _STEP[step.state]


def _members(report: Report, width: int, rows: int) -> Iterator[list[Piece]]:
    by_pid = {(row.host, row.pid): row for row in report.processes}
    named = {(one.host, one.pid) for one in report.culprits}
    shown = _chosen(report.ranks, named, rows)
    hosts = several_hosts(report)
    cells = [_cells(row, by_pid.get((row.host, row.pid)), width, hosts=hosts) for row in shown]
    names = [name for name, least in _COLUMNS.items() if width >= least]
    widths = {
        name: max(map(cell_len, column)) for name, column in zip(names, zip(names, *cells, strict=True), strict=True)
    }
    # The one column that may be cut is the one that says what a member does: the others are as wide as their cells.
    others = sum(widths.values()) - widths["does"] + len(_GAP) * len(names)
    widths["does"] = min(widths["does"], max(10, width - others))
    styles = ["bold red" if (row.host, row.pid) in named else "" for row in shown]
    for words, style in zip([names, *cells], ["bold", *styles], strict=True):
        columns = zip(words, widths.items(), strict=True)
        yield [(_GAP.join(_fit(one, size, right=name in _RIGHT) for one, (name, size) in columns), style)]
    if len(report.ranks) > len(shown):
        yield [(f"+{len(report.ranks) - len(shown)} more", "dim")]


# column -> terminal width from which it is shown
_COLUMNS = {"member": 0, "pid": 100, "phase": 0, "does": 0, "still": 0, "cpu": 80, "memory": 80}
_RIGHT = frozenset({"pid", "still", "cpu", "memory"})


def _cells(row: RankRow, process: ProcessRow | None, width: int, *, hosts: bool) -> list[str]:
    name = clean(label(row, with_host=False), 24) + (f" on {clean(row.host, 24)}" if hosts else "")
    pid = [str(row.pid)] if width >= _COLUMNS["pid"] else []
    costs = _costs(process) if width >= _COLUMNS["cpu"] else []
    return [name, *pid, row.phase or "", _does(row, process), _still(row), *costs]


def _chosen(rows: Sequence[RankRow], named: set[tuple[str, int]], limit: int) -> list[RankRow]:
    """At most `limit` rows in their order: culprits, then one of each picture, then the rest."""
    if len(rows) <= limit:
        return list(rows)
    seen: set[int] = set()
    weight = {}
    for number, row in enumerate(rows):
        weight[number] = 0 if (row.host, row.pid) in named else 1 if row.group not in seen else 2
        seen.add(row.group)
    kept = sorted(sorted(weight, key=lambda number: (weight[number], number))[:limit])
    return [rows[number] for number in kept]


def _does(row: RankRow, process: ProcessRow | None) -> str:
    if row.mechanism == "unknown" and process is not None and row.quiet_s is not None and row.quiet_s < _MOVES_S:
        return "moves"
    return MECHANISM_WORDS[row.mechanism]


def _still(row: RankRow) -> str:
    return "" if row.quiet_s is None or row.quiet_s < _MOVES_S else duration(row.quiet_s)


def _costs(process: ProcessRow | None) -> list[str]:
    if process is None:
        return ["", ""]
    cpu = f"{process.cpu_pct:.0f}%" if process.cpu_pct is not None else ""
    return [cpu, size(process.rss) if process.rss is not None else ""]


def _facts(moment: Moment, *, lines: int) -> Iterator[tuple[str, str, str]]:
    report = moment.report
    if clocks(report):
        yield "Clocks", " · ".join(clocks(report)), ""
    for number, lost in enumerate(lost_hosts(report)[:_LOST]):
        yield ("Hosts" if number == 0 else ""), clean(f"{lost.host} cannot be reached: {lost.detail}", 200), ""
    if len(lost_hosts(report)) > _LOST:
        yield "", f"and {len(lost_hosts(report)) - _LOST} more", "dim"
    for log in report.logs[:2]:
        grown = f", grew {duration(log.last_growth_s)} ago" if log.last_growth_s is not None else ""
        count = f", {log.lines:,} lines" if log.lines is not None else ""
        amount = f"{log.bytes:,} bytes" if log.bytes is not None else clean(log.note, 80)
        yield "Log", f"{clean(log.path, 120)}: {amount}{count}{grown}", ""
    last = moment.lines[-lines:] or [log.tail[-1] for log in report.logs if log.tail][:1]
    for number, line in enumerate(last):
        yield ("Output" if number == 0 else ""), clean(line.strip(), 400), ""
    if report.phase and report.phase.next_line and report.verdict != "ready":
        yield "Next line", clean(report.phase.next_line, 200), ""
    ports = [
        f"{one.port} {clean(one.state, 40)}" + (f" ({clean(one.health, 40)})" if one.health else "")
        for one in report.ports
    ]
    if ports:
        yield "Ports", " · ".join(ports[:6]), ""
    if moment.note:
        yield "Watching", clean(moment.note, 200), ""
    for number, event in enumerate(moment.events[-3:]):
        yield ("Events" if number == 0 else ""), clean(event, 300), "dim"
