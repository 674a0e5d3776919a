"""Who waits for whom by their place in the launch, where neither stack nor call says so.

A launcher whose stack could not be read, or is of a version that no profile knows, still sits above its schedulers: when
it waits in a call that could be anything while they have not become idle, it waits for them. That is an assumption, and
only ever takes suspicion from the upper member; it never puts it on anyone.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..model.launch import Launch, Member
from ..model.words import Mechanism, Role
from .view import Picture

# Where a chain of waits ends when everyone waits: ranks before the engine core before the front end.
DEPTH: dict[Role, int] = {"scheduler": 4, "worker": 4, "engine-core": 3, "dp-controller": 2, "dp-coordinator": 2}
_FRONT = 1
# Waits that look the same whoever they are for.
_ANY_WAIT: tuple[Mechanism, ...] = (
    "unknown",
    "lock-wait",
    "event-wait",
    "queue-wait",
    "pipe-read",
    "child-wait",
    "idle",
)


def depth(member: Member) -> int:
    """How far down the chain of waits its role stands."""
    return DEPTH.get(member.role, _FRONT)


def assume_waits(launch: Launch, pictures: Sequence[Picture]) -> list[Picture]:
    """Pictures in which an upper member that waits, nobody can see for what, waits for the needed members below it."""
    below: dict[int, Picture] = {}
    for one in sorted((one for one in pictures if one.member.needed), key=lambda one: depth(one.member)):
        for above in _above(launch, one.member):
            if above in launch.members and depth(launch.members[above]) < depth(one.member) and not one.idle:
                below[above] = one
    return [
        replace(one, waits_for=below[one.member.pid].member.role)
        if one.member.pid in below and one.waits_for is None and tells_nothing(one)
        else one
        for one in pictures
    ]


def tells_nothing(one: Picture) -> bool:
    """Whether all that is seen of it is a general wait, without code of its own on top of the stack (there it would be)."""
    if one.definite or one.moving or one.mechanism not in _ANY_WAIT:
        return False
    return one.stack is None or one.means.mechanism is not None


def _above(launch: Launch, member: Member) -> list[int]:
    found: list[int] = []
    at = member.ppid
    while at in launch.members and at not in found:
        found.append(at)
        at = launch.members[at].ppid
    return found
