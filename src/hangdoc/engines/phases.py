"""The order of the phases of one launch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model.launch import Launch
from ..model.words import PHASES, Phase
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
