"""A start held against good ones: phases, lines, counts, and whether it is overdue. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..engines.profile import PhaseSpec
from ..model import report as r
from ..model.baseline import Baseline, BaselineLine, WaitSignature
from ..model.words import Phase
from . import progression, quantiles, totals
from .nearest import Beside
from .view import Picture, View

_ROWS = 20  # missing and extra lines shown
_TELLING_S = 5.0  # phases that took less say nothing about how fast this machine is
_SLOWEST = 4.0  # a start that waited long for something says nothing about what comes after
_HARDLY = 1.2  # times as long, about which no word is lost
_APART_S = 5.0  # lines of several processes that came within so much of each other may come in another order


class Lateness(msgspec.Struct, frozen=True):
    """How long the member furthest behind has been where it is, and how long it may be."""

    now_s: float
    after_s: float  # then it is overdue
    words: str  # for people, with the runs that it rests on

    @property
    def overdue(self) -> bool:
        """Whether it has been there for too long."""
        return self.now_s > self.after_s


def started(view: View) -> float | None:
    """Wall clock at which the root process started."""
    root, last = view.launch.members.get(view.launch.root), view.history.last
    return last.at - (last.boot - root.start) if root and last else None


def lateness(view: View, behind: Picture) -> Lateness | None:
    """Whether `behind` is overdue by the baseline: in the phase that its own log marks put it into.

    The start as a whole decides only where the good starts do not say how long that phase took: a start that was slow
    before, on a loaded machine, has used its time up and would be called hung by the next short silence.
    None where no baseline that may decide is at hand, or it does not know this phase and this start is within its time.
    """
    beside, began = view.beside, started(view)
    if beside is None or not beside.comparable or began is None or view.history.last is None:
        return None
    now = view.history.last.at - began
    reached = progression.spans(
        view.order,
        progression.moments(view.written(behind.member), began),
        max(0.0, behind.member.start - view.launch.members[view.launch.root].start),
        None,
    )
    if reached:
        here = reached[-1]
        took = _took(beside.baseline, behind.member.label, behind.member.role, here.phase)
        if took:
            what = f"phase {here.phase} of {behind.member.label}"
            slower = slowness(view, beside.baseline, began)
            bound = beside.overdue_after(took, here.phase, slower)
            return Lateness(
                here.seconds(now), bound, _words(beside, what, here.seconds(now), took) + _slower_words(slower)
            )
    runs = quantiles.known(one.ready_s for one in beside.baseline.runs)
    words = _words(beside, "the whole start", now, runs) if runs else ""
    whole = Lateness(now, beside.overdue_after(runs), words) if runs else None
    return whole if whole is None or whole.overdue or not reached else None


def slowness(view: View, base: Baseline, began: float) -> float:
    """How many times as long as the slowest of the good starts this one took for the phases that are behind it, 1 to 4.

    A machine that is busy with other things slows all phases down alike; a hang does not, for it is never behind.
    """
    behind = progression.front(view.order, view.logbook.by_member, view.logbook.others, began, None)[:-1]
    then = {row.id: max(quantiles.known(row.duration_s), default=0.0) for row in base.phases}
    both = [(span.seconds(span.start), then[span.phase]) for span in behind if then.get(span.phase)]
    here, there = sum(one for one, _ in both), sum(one for _, one in both)
    return min(_SLOWEST, max(1.0, here / there)) if there >= _TELLING_S else 1.0


def _slower_words(slower: float) -> str:
    return f"; what is behind it took {slower:.1f} times as long as ever then" if slower > _HARDLY else ""


def expected_s(view: View, spec: PhaseSpec) -> float:
    """Seconds after which a phase of the launch is overdue: by its good starts, else the ceiling of the profile."""
    if view.beside is not None and view.beside.comparable:
        for phase in view.beside.baseline.phases:
            took = quantiles.known(phase.duration_s)
            if phase.id == spec.id and took:
                began = started(view)
                slower = slowness(view, view.beside.baseline, began) if began is not None else 1.0
                return view.beside.overdue_after(took, spec.id, slower)
    return spec.ceiling_s


def _took(baseline: Baseline, label: str, role: str, phase: Phase) -> list[float]:
    """How long a member was in a phase in the good starts: this member, else the slowest of its role."""
    for row in baseline.phases:
        if row.id == phase:
            same = row.dwell_s.get(label)
            if same:
                return quantiles.known(same)
            others = [values for name, values in row.dwell_s.items() if name.partition(" ")[0] == role]
            by_run = [max((v for v in run if v is not None), default=None) for run in zip(*others, strict=False)]
            return quantiles.known(by_run)
    return []


def _words(beside: Beside, what: str, now: float, took: Sequence[float]) -> str:
    count = len(took)
    runs = "one good start" if count == 1 else f"{count} good starts"
    trust = "; one run alone says little" if count == 1 else ""
    longest = "less than 1 s" if took[-1] < 1 else f"{took[-1]:.0f} s" if count == 1 else f"at most {took[-1]:.0f} s"
    unlike = "" if beside.alike else "; they were not quite like this one"
    return (
        f"{what} has lasted {now:.0f} s and took {longest} in {runs} (baseline {beside.baseline.name}{trust}{unlike})"
    )


def familiar(view: View, one: Picture) -> str:
    """A sentence where a member waits just as it does in good starts of the same phase; it clears nobody."""
    beside = view.beside
    if beside is None or one.phase is None:
        return ""
    function = one.frame.function if one.frame else ""
    signature = WaitSignature(one.member.role, one.phase, one.mechanism, function)
    if not function or signature not in beside.baseline.waits:
        return ""
    return f"{one.member.label} waits in {function} in this phase in good starts, too: how it waits proves nothing, how long does"


def since_phase(view: View) -> float:
    """Seconds since any member entered a further phase, by the marks in the log; for ever where none is timed.

    Whose turn has only just come was still before for a good reason: it waited for the others.
    """
    began, last = started(view), view.history.last
    if began is None or last is None:
        return float("inf")
    writers = (*view.logbook.by_member.values(), view.logbook.others)
    entered = [progression.spans(view.order, progression.moments(one, began), 0.0, None)[-1:] for one in writers]
    times = [one[0].start for one in entered if one and one[0].start > 0]
    return last.at - began - max(times) if times else float("inf")


def row(view: View, behind: Picture | None) -> r.BaselineRow | None:
    """This start beside the baseline, for the report."""
    beside, began = view.beside, started(view)
    if beside is None or began is None or view.history.last is None:
        return None
    base = beside.baseline
    now = view.history.last.at - began
    seen = _phases_now(view, began)
    rows = []
    for phase in base.phases:
        took = quantiles.known(phase.duration_s)
        if took:
            rows.append(
                r.BaselinePhase(
                    phase.id, seen.get(phase.id), quantiles.quantile(took, 0.5), quantiles.quantile(took, 0.95)
                )
            )
    missing = _missing(view, base)
    due = overdue_line(view, base, behind)
    return r.BaselineRow(
        base.name,
        [one.words for one in beside.differences],
        rows,
        [one.text for one in missing[:_ROWS]],
        _extra(view, base)[:_ROWS] if behind is not None else [],  # a server that is ready prints requests
        len(base.runs),
        base.provenance.kind,
        due[0].text if due else None,
        round(due[1], 1) if due else None,
        list(totals.facts(view, base, now)),
    )


def _phases_now(view: View, began: float) -> dict[Phase, float]:
    now = (view.history.last.at if view.history.last else 0.0) - began
    ready = progression.ready_at((*view.logbook.by_member.values(), view.logbook.others), began)
    found = progression.front(view.order, view.logbook.by_member, view.logbook.others, began, ready)
    return {one.phase: round(one.seconds(now), 1) for one in found}


def _always(base: Baseline) -> list[BaselineLine]:
    """Lines that every good start printed, in the order of their first times."""
    always = [one for one in base.lines if one.first_s and all(at is not None for at in one.first_s)]
    return sorted(always, key=_middle)


def _middle(line: BaselineLine) -> float:
    return quantiles.quantile(quantiles.known(line.first_s), 0.5)


def _missing(view: View, base: Baseline) -> list[BaselineLine]:
    """Lines that every good start had printed well before the last line that this one printed, too."""
    if view.logbook.gaps:
        return []
    have = view.logbook.templates
    always = _always(base)
    reached = max((_middle(one) for one in always if one.text in have), default=0.0)
    return [one for one in always if one.text not in have and max(quantiles.known(one.first_s)) + _APART_S < reached]


def _extra(view: View, base: Baseline) -> list[str]:
    known = {one.text for one in base.lines}
    return sorted(view.logbook.templates - known - {""}) if known else []


def overdue_line(view: View, base: Baseline, behind: Picture | None) -> tuple[BaselineLine, float] | None:
    """The line that should come next and how many seconds late it is, negative when it is not due yet.

    Of the member furthest behind where the baseline knows lines of its role, else of anyone; measured from the last
    line of this start that the good ones have, too.
    """
    have, always = view.logbook.templates, _always(base)
    seen = [one for one in always if one.text in have]
    if not seen or view.logbook.gaps:
        return None
    last = seen[-1]
    ahead = [one for one in always if one.text not in have and _middle(one) >= _middle(last)]
    mine = [one for one in ahead if behind is not None and one.role == behind.member.role]
    nxt = next(iter(mine or ahead), None)
    written = [one.last_line_at for one in (*view.logbook.by_member.values(), view.logbook.others) if one.last_line_at]
    if nxt is None or not written or view.history.last is None:
        return None
    since = view.history.last.at - max(written)
    return nxt, since - max(0.0, _middle(nxt) - _middle(last))
