"""The phases of a start with their times: behind it, now, to come."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.watching import PhaseStep
from ..model.words import Phase
from . import compare
from .judge import Judgement, phase_since
from .view import View


def begun(view: View, seen: Mapping[Phase, float]) -> dict[Phase, float]:
    """Wall clock at which each phase began: by the first line that marks it, else when a look first saw it."""
    found = {phase: at for phase, at in seen.items() if phase in view.phases}
    writers = (*view.logbook.by_member.values(), view.logbook.others)
    for phase in view.phases:
        times = [at for one in writers if (at := one.since(phase)) is not None]
        if times:
            found[phase] = min(times)
    return found


def timeline(view: View, judgement: Judgement, seen: Mapping[Phase, float]) -> list[PhaseStep]:
    """All phases of this launch in order. `seen`: phase -> wall clock of the look that first found the launch in it."""
    if judgement.phase not in view.phases:
        return [PhaseStep(spec.id, "next", None, compare.expected_s(view, spec)) for spec in view.order]
    now = view.history.last.at if view.history.last else 0.0
    place = view.phases.index(judgement.phase)
    starts = begun(view, seen)
    steps = []
    for number, spec in enumerate(view.order):
        if number < place:
            later = [starts[one] for one in view.phases[number + 1 : place + 1] if one in starts]
            began = starts.get(spec.id)
            took = max(0.0, min(later) - began) if later and began is not None else None
            steps.append(PhaseStep(spec.id, "done", took, compare.expected_s(view, spec)))
        elif number == place:
            since = phase_since(view, judgement.behind) if judgement.behind else None
            if since is None and spec.id in starts:
                since = max(0.0, now - starts[spec.id])
            steps.append(PhaseStep(spec.id, "now", since, compare.expected_s(view, spec)))
        else:
            steps.append(PhaseStep(spec.id, "next", None, compare.expected_s(view, spec)))
    return steps


def why_not_more(view: View, judgement: Judgement) -> str | None:
    """Why a suspect is not called a hang yet, and what would make it one."""
    if judgement.verdict != "suspect" or judgement.behind is None:
        return None
    spec = next((one for one in view.order if one.id == judgement.phase), None)
    if spec is None:
        return "nothing definite is known, and how long this may take is not known either"
    late = compare.lateness(view, judgement.behind)
    since = late.now_s if late else phase_since(view, judgement.behind)
    after = late.after_s if late else spec.ceiling_s
    left = f", in {max(0.0, after - since):.0f} s" if since is not None else ""
    return (
        f"nothing definite is known, and {spec.id} is not overdue: it would be after {after:.0f} s{left}, or when"
        " another rank has long passed it"
    )
