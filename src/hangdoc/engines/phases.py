"""The order of the phases of one launch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model.launch import Launch
from ..model.words import PHASES, Phase
from .meanings import Meaning
from .profile import PhaseSpec, Profile


def _given(argument: str, args: Mapping[str, str]) -> bool:
    """Whether "name" or "name=value" is among the arguments."""
    name, equals, value = argument.partition("=")
    if name not in args:
        return False
    return args[name] == value if equals else args[name].lower() not in ("false", "0")


def exists(spec: PhaseSpec, args: Mapping[str, str]) -> bool:
    """Whether a start with these arguments goes through this phase."""
    if any(_given(one, args) for one in spec.unless):
        return False
    return not spec.when or any(_given(one, args) for one in spec.when)


def order(profile: Profile, launch: Launch) -> tuple[PhaseSpec, ...]:
    """The phases that this launch goes through, first to last. Empty for an unknown engine."""
    return tuple(spec for spec in profile.phases if exists(spec, launch.args))


def ordinal(phases: Sequence[PhaseSpec], phase: Phase | None) -> int:
    """The place of a phase, counted from 1; 0 for none.

    A phase that this launch does not have takes the place of the next one that it has, so that two members can always
    be compared: whoever is told to be in a phase left out is not behind those in front of it.
    """
    if phase is None:
        return 0
    ids = [spec.id for spec in phases]
    if phase in ids:
        return ids.index(phase) + 1
    later = PHASES[PHASES.index(phase) :]
    return next((place for place, one in enumerate(ids, 1) if one in later), len(ids))


def later(phases: Sequence[PhaseSpec], one: Phase | None, other: Phase | None) -> Phase | None:
    """The later of two phases: what the log shows and what the stack shows are both lower bounds."""
    return one if ordinal(phases, one) >= ordinal(phases, other) else other


def _above(pid: int, launch: Launch) -> list[int]:
    """Its parent, that one's parent, and so on, up to the first that is no member."""
    found: list[int] = []
    at = pid
    while at in launch.members and launch.members[at].ppid not in found:
        at = launch.members[at].ppid
        found.append(at)
    return found


def lift(
    phases: Sequence[PhaseSpec],
    launch: Launch,
    found: Mapping[int, Phase | None],
    meanings: Mapping[int, Sequence[Meaning]],
) -> dict[int, Phase | None]:
    """Phases of the members, raised to what their caller asks of them.

    An engine core that waits for its workers to "determine the available memory" has them in memory-profile, also the
    one whose own stack and log do not say so; a launcher that waits for its warm-up request has the schedulers in
    warmup. A wait for a child to come up at all raises nothing: the child may still import.
    """
    spawned = ordinal(phases, "engine-init")
    raised = dict(found)
    asking = {
        pid: [one for one in said if not one.idle and one.phase is not None and ordinal(phases, one.phase) > spawned]
        for pid, said in meanings.items()
    }
    asking = {pid: said for pid, said in asking.items() if said}
    for other, member in launch.members.items() if asking else ():
        for pid in _above(other, launch):
            for one in asking.get(pid, ()):
                if member.role == one.waits_for:
                    raised[other] = later(phases, raised.get(other), one.phase)
    return raised
