"""Facts of one member that its control group tells: what it limits, and what it did about it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model.places import place_of
from ..model.sample import Cgroup
from .of_member import OfMember
from .values import Missing, Seen


def _cgroup(of: Callable[[Cgroup], Any]) -> Callable[[OfMember, str], Any]:
    def get(c: OfMember, _: str) -> Any:
        cgroup = c.cgroup()
        found = of(cgroup) if cgroup else None
        return found if found is not None else c.missing("host")

    return get


def _unlimited(c: OfMember) -> bool:
    """Whether the files of its cgroup could be read, so that a limit that is not there is known to be absent.

    The group of the host itself has no limits; from inside a container "/" may as well be a group that is not mounted.
    """
    cgroup, facts = c.cgroup(), c.facts
    if cgroup is None or facts is None:
        return False
    read = any(one is not None for one in (cgroup.memory_current, cgroup.memory_max, cgroup.pids_max, cgroup.cpu_max))
    return read or (c.process.cgroup == "/" and not facts.container)


def _of_limit(c: OfMember, _: str) -> Any:
    cgroup = c.cgroup()
    found = _quota(cgroup) if cgroup else None
    return found if found is not None or (_unlimited(c) and cgroup and not cgroup.cpu_max) else c.missing("host")


def _throttled(c: OfMember, name: str) -> Any:
    found = _moved("throttled_s")(c, name)
    return None if isinstance(found, Missing) and _unlimited(c) else found


def _moved(name: str) -> Callable[[OfMember, str], Any]:
    """A counter of the cgroup with what it was at the first look."""

    def get(c: OfMember, _: str) -> Any:
        cgroup, first = c.cgroup(), c.looked.view.history.first_facts.get(place_of(c.process.pid))
        found = getattr(cgroup, name) if cgroup else None
        if found is None:
            return c.missing("host")
        before = first.cgroups.get(c.process.cgroup or "") if first else None
        return Seen(found, getattr(before, name) if before else None)

    return get


def _share(cgroup: Cgroup) -> float | None:
    if not cgroup.memory_max or cgroup.memory_current is None:
        return None
    return round(cgroup.memory_current / cgroup.memory_max, 3)


def _quota(cgroup: Cgroup) -> float | None:
    words = (cgroup.cpu_max or "").split()
    if len(words) != 2 or not all(one.isdigit() for one in words) or int(words[1]) == 0:
        return None
    return round(int(words[0]) / int(words[1]), 2)


def _pids(c: OfMember, _: str) -> Any:
    cgroup = c.cgroup()
    if cgroup is not None and cgroup.pids_max is None and _unlimited(c):
        return None
    if cgroup is None or cgroup.pids_current is None or cgroup.pids_max is None:
        return c.missing("host")
    return cgroup.pids_max - cgroup.pids_current


MEMBER = {
    "frozen": _cgroup(lambda one: one.frozen), "oom_kills": _moved("oom_kills"),
    "memory_limit": _cgroup(lambda one: one.memory_max), "memory_used_share": _cgroup(_share),
    "cpu_quota": _of_limit, "throttled": _throttled,
    "pids_left": _pids,
}  # fmt: skip
