"""Facts of a host. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..model.sample import HostFacts
from .gather import Looked
from .values import Missing


@dataclass(frozen=True)
class OfHost:
    """One host in a launch that was looked at."""

    looked: Looked
    facts: HostFacts

    def missing(self, reason: str = "") -> Missing:
        """Why a fact of it has no value."""
        return self.looked.missing("host", None, reason)


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
            one.probe == "host" and "kernel log" in one.detail for one in c.looked.view.history.unseen.values()
        )
        return found if found or not unread else c.missing("the kernel log could not be read")

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
