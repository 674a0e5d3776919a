"""What several renderers need to know about a report: its victims, its folded blind spots, its headline. Pure."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec

from ..model.places import REACH
from ..model.report import Culprit, Place, RankRow, Report, UndecidedCause, UnseenRow
from ..model.words import UnseenReason
from .wording import MECHANISM_WORDS, duration, fold_labels, plural

_JUST_NOW = 2.0  # seconds
_HOSTS = 4  # that are named; of more their number is told
_INSTALLED = re.compile(r"^.*/(?:site|dist)-packages/")
# Blind spots that every launch has, or that are wanted: told last, for nothing needs to be done.
_HARMLESS = frozenset({"overwritten", "skipped", "unsupported"})
STUCK = frozenset({"hung", "suspect", "crashed"})


class Group(msgspec.Struct, frozen=True):
    """Members with equal pictures."""

    label: str  # "scheduler TP0-TP2, TP4-TP7"
    count: int
    mechanism: str  # in words
    phase: str


class Blind(msgspec.Struct, frozen=True):
    """Everything that could not be seen for one reason, with one fix."""

    what: str  # "stacks of 4711, 4712"
    count: int
    reason: UnseenReason
    advice: str  # a sentence, or empty


def several_hosts(report: Report) -> bool:
    """Whether rows need their host to be told apart."""
    return len({row.host for row in report.processes} | {row.host for row in report.culprits}) > 1


def label(row: Culprit | RankRow, *, with_host: bool) -> str:
    """ "scheduler TP1", and "on HOST" when there are several."""
    name = f"{row.role} {row.rank}".strip()
    return f"{name} on {row.host}" if with_host else name


def place(where: Place | None) -> str:
    """ "load_model (sglang/srt/model_executor/model_runner.py:210)": the path within site-packages, else the whole."""
    if where is None:
        return ""
    file = _INSTALLED.sub("", where.file)
    return f"{where.function} ({file}:{where.line})"


def detail(report: Report, one: Culprit) -> str:
    """The culprit's own sentence, unless the summary has said it already."""
    return "" if one.detail.rstrip(".") in report.summary else one.detail


def victims(report: Report) -> list[Group]:
    """The needed members that wait for others and are not culprits, grouped by what they do; empty unless something is
    stuck. One that idles by design waits for nobody."""
    if report.verdict not in STUCK or not report.culprits:
        return []
    named = {(one.host, one.pid) for one in report.culprits}
    waiting = {
        (wait.source.host, wait.source.pid)
        for wait in report.waits
        if any((end.host, end.pid) != (wait.source.host, wait.source.pid) for end in wait.target or ())
    }
    return groups([row for row in report.ranks if (row.host, row.pid) in waiting - named])


def groups(rows: list[RankRow]) -> list[Group]:
    """Rows with the same group folded into one, the largest first."""
    by_group: dict[tuple[int, str], list[RankRow]] = defaultdict(list)
    hosts = len({row.host for row in rows}) > 1
    for row in rows:
        by_group[row.group, row.role].append(row)
    folded = [
        Group(
            label=f"{role} {fold_labels(row.rank for row in members)}".strip() + (_hosts(members) if hosts else ""),
            count=len(members),
            mechanism=MECHANISM_WORDS[members[0].mechanism],
            phase=members[0].phase or "",
        )
        for (_, role), members in by_group.items()
    ]
    return sorted(folded, key=lambda one: (-one.count, one.label))


def _hosts(rows: list[RankRow]) -> str:
    """Where members without a rank are, which nothing else tells apart."""
    hosts = list(dict.fromkeys(row.host for row in rows))
    if any(row.rank for row in rows):
        return ""
    return f" on {fold_labels(hosts)}" if len(hosts) <= _HOSTS else f" on {plural(len(hosts), 'host')}"


def lost_hosts(report: Report) -> list[UnseenRow]:
    """Hosts that could not be reached, or no longer."""
    return [row for row in report.unseen if row.probe == REACH]


def blind_spots(report: Report) -> list[Blind]:
    """What could not be seen, folded by equal reason and fix, in the order in which the reasons first came."""
    by_fix: dict[tuple[str, str], list[UnseenRow]] = defaultdict(list)
    for row in report.unseen:
        by_fix[row.reason, row.fix].append(row)
    folded = [Blind(_what(rows), len(rows), rows[0].reason, _advice(rows[0])) for rows in by_fix.values()]
    return sorted(folded, key=lambda one: one.reason in _HARMLESS)  # stable: the others keep their order


def next_steps(report: Report) -> list[str]:
    """What to do, each step once: first for causes that are more than a hint, then the report's own, then for hints."""
    sure = [step for cause in report.causes if cause.confidence != "hint" for step in cause.next]
    hints = [step for cause in report.causes if cause.confidence == "hint" for step in cause.next]
    return list(dict.fromkeys([*sure, *report.next, *hints]))


def causes_undecided(report: Report) -> list[UndecidedCause]:
    """Known causes that could not be judged; what the verdict itself lacks stands in the summary."""
    return [one for one in report.undecided if one.id != "verdict"]


def _advice(row: UnseenRow) -> str:
    if not row.fix:
        return ""
    return row.fix[0].upper() + row.fix[1:] if row.reason in _HARMLESS else f"To see it: {row.fix}"


def _what(rows: list[UnseenRow]) -> str:
    probes = list(dict.fromkeys(row.probe for row in rows))
    hosts = len({row.host for row in rows}) > 1
    pids = list(dict.fromkeys((f"{row.host}:" if hosts else "") + str(row.pid) for row in rows if row.pid is not None))
    if probes == [REACH]:
        return "; ".join(f"host {row.host} ({row.detail})" for row in rows[:_HOSTS]) + (
            f" and {len(rows) - _HOSTS} more hosts" if len(rows) > _HOSTS else ""
        )
    if len(rows) == 1 and rows[0].detail and rows[0].pid is None:
        return f"{rows[0].probe} ({rows[0].detail})"
    shown = ", ".join(probes[:4]) + (f" and {len(probes) - 4} more" if len(probes) > 4 else "")
    if not pids:
        return shown
    if len(pids) > 3:
        return f"{shown} of {plural(len(pids), 'process', 'processes')}"
    return f"{shown} of {', '.join(pids)}"


def headline(report: Report) -> str:
    """Engine, parallelism and phase in one line: "SGLang 0.5.23 · post-load, step 6 of 12, for 20 min"."""
    engine = " ".join(part for part in (report.engine.name, report.engine.version) if part)
    now = report.phase
    if now is None:
        return engine
    step = f", step {now.ordinal} of {now.of}" if now.ordinal and now.of else ""
    since = f", for {duration(now.since_s)}" if now.since_s is not None else ""
    late = f" (overdue after {duration(now.expected_s)})" if now.expected_s and report.verdict != "ready" else ""
    return f"{engine} · {now.id}{step}{since}{late}"


def clocks(report: Report) -> list[str]:
    """The clocks that are known, in words."""
    known = report.clocks
    pairs = (
        ("started {} ago", known.age_s),
        ("nothing moved for {}" if (known.quiet_s or 0) >= _JUST_NOW else "moved just now", known.quiet_s),
        ("log silent for {}", known.since_log_s),
        ("no progress for {}", known.since_progress_s),
        ("a time-out ends it in {}", known.evidence_lost_in_s),
    )
    return [text.format(duration(seconds)) for text, seconds in pairs if seconds is not None]
