"""Ranks that are all in a collective, but not in the same one: each waits for a call that the others will never make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from ..engines.meanings import foreign
from ..engines.profile import Profile
from .stacks import Path, path_of, shared_length
from .view import Picture


def mark_mismatch(pictures: Sequence[Picture], profile: Profile) -> list[Picture]:
    """Pictures in which the ranks that differ from the others have the mechanism `collective-mismatch`.

    Of two different calls the one with fewer ranks differs; with as many on both sides the one that foreign code made, below the
    frames that they share;
    when neither tells, all of them.
    """
    ranks = [one for one in pictures if one.member.needed and one.waits_for == "ranks"]
    in_call = [one for one in ranks if one.mechanism == "collective" and one.stack is not None and not one.idle]
    roads = {one.member.pid: path_of(one.stack) for one in in_call if one.stack is not None}
    if (
        len(in_call) < len(ranks)
        or len(set(roads.values())) < 2
        or len({_innermost(road) for road in roads.values()}) < 2
    ):
        return list(pictures)
    odd = _odd(in_call, roads, profile)
    others = sorted({_innermost(roads[one.member.pid]) for one in in_call if one not in odd})
    said = (
        f", while the other ranks are in {' and '.join(others)}" if others else ", and the ranks are in different ones"
    )
    return [
        replace(one, mechanism="collective-mismatch", detail=f"waits in {_innermost(roads[one.member.pid])}{said}")
        if one in odd
        else one
        for one in pictures
    ]


def _innermost(road: Path) -> str:
    return road[-1][1] if road else ""


def _odd(in_call: Sequence[Picture], roads: dict[int, Path], profile: Profile) -> list[Picture]:
    sizes = Counter(roads[one.member.pid] for one in in_call)
    fewest = min(sizes.values())
    odd = [one for one in in_call if sizes[roads[one.member.pid]] == fewest]
    if len(odd) < len(in_call):
        return odd
    shared = shared_length(list(roads.values()))
    patched = [one for one in in_call if one.stack is not None and foreign(one.stack, profile, beyond=shared)]
    return patched if 0 < len(patched) < len(in_call) else list(in_call)
