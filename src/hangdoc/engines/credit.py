"""Whose line it is: from what a line says of its writer to a member of the launch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model.launch import Launch, Member, Rank
from ..model.places import packed, place_of
from .lines import Line


def _same(wanted: Rank, member: Member) -> bool:
    """Whether the member has every dimension of the rank that the line shows and the member knows."""
    pairs = zip(vars(wanted).values(), vars(member.rank).values(), strict=True)
    return all(want is None or have is None or want == have for want, have in pairs)


def _lowest(members: Iterable[Member]) -> int | None:
    """The first by rank, then by start: where one rank prints for all, it is that one."""
    ranks = sorted(
        members, key=lambda one: (one.rank.pp or 0, one.rank.tp or 0, one.rank.world or 0, one.start, one.pid)
    )
    return ranks[0].pid if ranks else None


def member_of(line: Line, launch: Launch, nspids: Mapping[int, int] | None = None, place: int = 0) -> int | None:
    """The pid of the member that wrote the line; None where nothing tells.

    `nspids` leads from a pid as the writer knows it, in its own pid namespace, to the one in the samples; `place` is that
    of the host on which the log lies. A line that could be of members of several hosts is of one there.
    """
    who = line.writer
    if who.pid is not None:
        pid = (nspids or {}).get(who.pid, packed(place, who.pid))
        if pid in launch.members:
            return pid
    roles = (who.role,) if who.role else line.mark.roles if line.mark else ()
    for role in roles:
        members = [one for one in launch.members.values() if one.role == role and _same(who.rank, one)]
        members = [one for one in members if place_of(one.pid) == place] or members
        if members:
            return members[0].pid if len(members) == 1 else _lowest(members)
    return None
