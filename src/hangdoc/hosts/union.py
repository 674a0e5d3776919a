"""One sample made of the samples of several hosts: ids carry their place (see `model.places`), clocks are those of one
host. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..model import sample as s
from ..model.places import REACH, HostPlace
from .channel import Lost
from .move import Shift, shifted


def union(
    places: Sequence[HostPlace],
    samples: Mapping[int, s.Sample],
    shifts: Mapping[int, Shift],
    now: Shift,
    probes: tuple[str, ...],
) -> s.Sample:
    """One sample of all hosts. `samples` and `shifts` by place; `now`: the clocks of the union at this instant.

    `host_facts` and `machine` are those of place 0, None where it did not tell; `further_facts` and `further_machines` have
    the others'.
    """
    moved = {place: shifted(one, place, places, shifts[place]) for place, one in sorted(samples.items())}
    parts = list(moved.values())
    facts = {place: one.host_facts for place, one in moved.items() if one.host_facts is not None}
    machines = {place: one.machine for place, one in moved.items() if one.machine is not None}
    return s.Sample(
        host=places[0].host,
        at=now.wall,
        mono=now.mono,
        boot=now.boot,
        probes=probes,
        processes={pid: process for one in parts for pid, process in one.processes.items()},
        sockets=[row for one in parts for row in one.sockets],
        logs=[log for one in parts for log in one.logs],
        health=[answer for one in parts for answer in one.health],
        host_facts=facts.pop(0, None),
        further_facts=facts,
        locks=[line for one in parts for line in one.locks],
        file_locks=[lock for one in parts for lock in one.file_locks],
        rings=[ring for one in parts for ring in one.rings],
        ended=sorted((end for one in parts for end in one.ended), key=lambda end: end.at),
        deep=[step for one in parts for step in one.deep],
        unseen=[row for one in parts for row in one.unseen]
        + [s.Unseen(REACH, one.lost, one.detail, host=one.host) for one in places if one.lost is not None],
        cost=_cost([one.cost for one in parts]),
        storage=_stored([one.storage for one in parts if one.storage is not None]),
        machine=machines.pop(0, None),
        further_machines=machines,
        networks=[row for one in parts for row in one.networks or ()] or None,
        places=tuple(places),
    )


def in_step(hosts: Sequence[str], runs: Sequence[Iterable[s.Sample]]) -> Iterator[s.Sample]:
    """Samples that were taken on each host by itself, made those of one look: the first ones of all hosts together, and so on.

    Nothing tells how the hosts' clocks differ, and nobody started the looks at one instant: the first samples count as taken
    at the same moment, which is true enough of what does not move any more.
    """
    shifts: dict[int, Shift] = {}
    base: s.Sample | None = None
    for looks in itertools.zip_longest(*runs):
        found = {place: one for place, one in enumerate(looks) if one is not None}
        base = base or next(iter(found.values()))
        for place, one in found.items():
            shifts.setdefault(place, Shift(base.mono - one.mono, base.boot - one.boot, base.at - one.at))
        place, lead = next(iter(found.items()))
        shift = shifts[place]
        now = Shift(lead.mono + shift.mono, lead.boot + shift.boot, lead.at + shift.wall)
        places = [
            HostPlace(host, asked=place in found, wall_ahead=-shifts[place].wall if place in shifts else 0.0)
            for place, host in enumerate(hosts)
        ]
        probes = tuple(dict.fromkeys(probe for one in found.values() for probe in one.probes))
        yield union(places, found, shifts, now, probes)


def lost_place(lost: Lost) -> HostPlace:
    """The place of a host that could not be reached."""
    return HostPlace(lost.host, lost.reason, lost.detail)


def _stored(parts: Sequence[s.Storage]) -> s.Storage | None:
    """What all hosts have on file systems; a kind of rows that no host reached stays unseen."""
    if not parts:
        return None
    fields: dict[str, Any] = {}
    for name in ("places", "checkpoints", "partials", "weights", "lock_files"):
        known = [rows for one in parts if (rows := getattr(one, name)) is not None]
        fields[name] = tuple(row for rows in known for row in rows) if known else None
    return s.Storage(**fields)


def _cost(costs: Sequence[s.Cost]) -> s.Cost:
    return s.Cost(
        wall_s=max((one.wall_s for one in costs), default=0.0),
        cpu_s=sum(one.cpu_s for one in costs),
        children=sum(one.children for one in costs),
        abandoned=sum(one.abandoned for one in costs),
        paused_ms={pid: paused for one in costs for pid, paused in one.paused_ms.items()},
    )
