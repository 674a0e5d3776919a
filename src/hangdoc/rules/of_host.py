"""Facts of a host. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from ..model.frozen import replace
from ..model.machine import Machine
from ..model.places import place_of, unmarked
from ..model.sample import HostFacts, Network
from ..model.storage import Checkpoint, LockFile, Partial, Place
from .gather import Looked
from .values import Missing

Row = TypeVar("Row", Place, Checkpoint, Partial, LockFile)


class OfHost(msgspec.Struct, frozen=True):
    """One host in a launch that was looked at."""

    looked: Looked
    facts: HostFacts
    place: int = 0  # its number among the hosts of the launch

    @property
    def machine(self) -> Machine | None:
        """What it is made of."""
        return self.looked.view.history.machines.get(self.place)

    @property
    def networks(self) -> list[Network]:
        """The network as its members see it."""
        return [one for one in self.looked.view.history.networks if self.place in map(place_of, one.pids or (0,))]

    def rows(self, rows: Sequence[Row] | None) -> list[Row] | None:
        """Of rows of the storage probe those of this host, with their paths as it knows them; None where none were read."""
        hosts = [one.host for one in self.looked.view.history.places]
        if rows is None:
            return None
        placed = [(unmarked(hosts, one.path), one) for one in rows]
        found = [replace(one, path=path) for (place, path), one in placed if place == self.place]
        return found if found or len(hosts) < 2 else None

    @property
    def host(self) -> str:
        """Its name, where there are several; else ""."""
        places = self.looked.view.history.places
        return places[self.place].host if self.place < len(places) else ""

    def missing(self, probe: str = "host", reason: str = "") -> Missing:
        """Why a fact of it has no value."""
        return self.looked.missing(probe, None, reason, self.host)


def _field(of: Callable[[HostFacts], Any]) -> Callable[[OfHost, str], Any]:
    def get(c: OfHost, _: str) -> Any:
        found = of(c.facts)
        return found if found not in (None, "") else c.missing()

    return get


def _share(facts: HostFacts) -> float | None:
    if not facts.mem_total or facts.mem_available is None:
        return None
    return round(facts.mem_available / facts.mem_total, 4)


def _kernel_lines(kind: str) -> Callable[[OfHost, str], Any]:
    """Lines of a kind. With none of them it depends on whether the log could be read."""

    def get(c: OfHost, _: str) -> Any:
        found = tuple(one.text for one in c.facts.kernel_log if one.kind == kind)
        unread = any(
            one.probe == "host" and "kernel log" in one.detail and one.host in ("", c.host)
            for one in c.looked.view.history.unseen.values()
        )
        return found if found or not unread else c.missing(reason="the kernel log could not be read")

    return get


GETTERS = {
    "kernel": _field(lambda one: one.kernel), "arch": _field(lambda one: one.arch), "cpus": _field(lambda one: one.cpus),
    "memory_total": _field(lambda one: one.mem_total), "memory_available": _field(lambda one: one.mem_available),
    "memory_available_share": _field(_share), "shm_total": _field(lambda one: one.shm_total),
    "shm_free": _field(lambda one: one.shm_free),
    "pressure": lambda c, name: c.facts.psi.get(name, c.missing()),
    "dead_mounts": lambda c, _: c.facts.dead_mounts,
    "remote_mounts": lambda c, _: tuple(sorted(set(c.facts.slow_mounts.values()))),
    "kernel_oom": _kernel_lines("oom"), "kernel_xid": _kernel_lines("xid"),
    "kernel_hung_task": _kernel_lines("hung-task"), "yama": _field(lambda one: one.yama),
    "container": lambda c, _: c.facts.container,
}  # fmt: skip
