"""Limits of the control groups that the members are in, version 1 and 2, and what they did about them.

Files: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst. None of these reads blocks.
"""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from ..model.sample import Cgroup, Process
from . import mounts
from .reading import number, text_or_none

NO_LIMIT = 1 << 60  # version 1 writes "no limit" as a number near 2**63


def paths(content: str) -> Dict[str, str]:
    """`/proc/PID/cgroup` as controller -> path; the unified hierarchy of version 2 is called "". Pure."""
    found = {}
    for line in content.splitlines():
        number_, colon, rest = line.partition(":")
        controllers, colon2, path = rest.partition(":")
        if colon and colon2 and number_.isdigit():
            for controller in controllers.split(","):
                found[controller] = path
    return found


def label(found: Dict[str, str]) -> str:
    """The path that names the group of a process best: that of version 2, else of the memory controller; and what of version 1's
    other controllers lies elsewhere, so that two processes have one name only where they have one set of limits. Pure."""
    named = [(one, found[one]) for one in ("", "memory", "freezer", "cpu", "pids") if found.get(one, "/") != "/"]
    if not named:
        return "/"
    first = named[0][1]
    return " ".join([first, *(f"{one}:{path}" for one, path in named[1:] if path != first)])


def folders(mount: mounts.Mount, path: str) -> List[str]:
    """Folders of a group and of the groups above it, innermost first, as far as they are mounted here. Pure.

    A container may see paths that begin above what is mounted: then the mount itself is its group.
    """
    base = mount.base.rstrip("/")
    above = path != base and not path.startswith(base + "/")
    inside = "" if above else path[len(base) :]
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:
        parts = []
    return ["/".join((mount.point.rstrip("/"), *parts[:length])) for length in range(len(parts), -1, -1)]


def _hierarchies() -> Dict[str, mounts.Mount]:
    """Controller -> its mount; "" for version 2."""
    found: Dict[str, mounts.Mount] = {}
    try:
        mounted = mounts.own()
    except OSError:
        return found
    for one in mounted:
        if one.kind == "cgroup2":
            found.setdefault("", one)
        elif one.kind == "cgroup":
            for option in one.options.split(","):
                found.setdefault(option, one)
    return found


def _pairs(path: str) -> Dict[str, int]:
    """A file of "name number" lines."""
    found = {}
    for line in (text_or_none(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[name] = int(value)
    return found


def _memory(above: List[str], limit_name: str, usage_name: str) -> Tuple[Optional[int], Optional[int]]:
    """(tightest limit of the group and those above it, use of the group that has it; of the innermost without one)."""
    best: Tuple[Optional[int], Optional[int]] = (None, number(f"{above[0]}/{usage_name}") if above else None)
    for folder in above:
        limit = number(f"{folder}/{limit_name}")
        if limit is not None and limit < NO_LIMIT and (best[0] is None or limit < best[0]):
            best = (limit, number(f"{folder}/{usage_name}"))
    return best


def _quota(folder: str, *, unified: bool) -> Optional[Tuple[int, int]]:
    """(quota, period) in microseconds, None without a limit."""
    if unified:
        words = (text_or_none(f"{folder}/cpu.max") or "").split()
        return (int(words[0]), int(words[1])) if len(words) == 2 and words[0].isdigit() else None
    quota, period = number(f"{folder}/cpu.cfs_quota_us"), number(f"{folder}/cpu.cfs_period_us")
    return (quota, period) if quota is not None and period and quota > 0 else None


def _cpu(above: List[str], *, unified: bool) -> Tuple[Optional[str], Optional[float]]:
    """("quota period" of the tightest limit, seconds that it has throttled)."""
    limits = [
        (quota[0] / quota[1], quota, folder) for folder in above for quota in [_quota(folder, unified=unified)] if quota
    ]
    if not limits:
        return None, None
    _, (quota, period), folder = min(limits)
    stat = _pairs(f"{folder}/cpu.stat")
    throttled = stat["throttled_usec"] / 1e6 if "throttled_usec" in stat else stat.get("throttled_time", 0) / 1e9
    return f"{quota} {period}", round(throttled, 3)


def _pids(above: List[str]) -> Tuple[Optional[int], Optional[int]]:
    """(tightest limit of processes and threads, how many there are in the group that has it)."""
    limits = [(limit, folder) for folder in above for limit in [number(f"{folder}/pids.max")] if limit is not None]
    if not limits:
        return None, None
    limit, folder = min(limits)
    return limit, number(f"{folder}/pids.current")


def _cpuset(found: Dict[str, List[str]]) -> Optional[str]:
    above = found.get("cpuset", found.get("", []))
    names = ("cpuset.effective_cpus", "cpuset.cpus") if "cpuset" in found else ("cpuset.cpus.effective",)
    told = (text_or_none(f"{folder}/{name}", 4096) for folder in above[:1] for name in names)
    return next((one.strip() for one in told if one and one.strip()), None)


def _frozen(found: Dict[str, List[str]]) -> Optional[bool]:
    if "freezer" in found:
        state = text_or_none(f"{found['freezer'][0]}/freezer.state")
        if state is not None:
            return state.strip() != "THAWED"  # FREEZING too: those that can be frozen already are
    if "" in found:
        events = _pairs(f"{found[''][0]}/cgroup.events")
        return bool(events["frozen"]) if "frozen" in events else None
    return None


def facts(found: Dict[str, List[str]]) -> Cgroup:
    """Facts of one group, given the folders of each of its controllers, innermost first."""
    if "memory" in found:
        memory = found["memory"]
        limit, current = _memory(memory, "memory.limit_in_bytes", "memory.usage_in_bytes")
        kills = _pairs(f"{memory[0]}/memory.oom_control").get("oom_kill")
    else:
        memory = found.get("", [])
        limit, current = _memory(memory, "memory.max", "memory.current")
        kills = _pairs(f"{memory[0]}/memory.events").get("oom_kill") if memory else None
    cpu, throttled = _cpu(found.get("cpu", found.get("", [])), unified="cpu" not in found)
    most, now = _pids(found.get("pids", found.get("", [])))
    return Cgroup(_frozen(found), limit, current, kills, cpu, throttled, most, now, _cpuset(found))


def read(root: str, members: Dict[int, Process]) -> Dict[str, Cgroup]:
    """Facts by group; the key is `Process.cgroup` where that is known, else the path that names the group best."""
    mounted = _hierarchies()
    by_text: Dict[str, Cgroup] = {}
    groups: Dict[str, Cgroup] = {}
    for pid, process in sorted(members.items()):
        content = text_or_none(f"{root}/{pid}/cgroup")
        if content is None:
            continue
        found = paths(content)
        key = process.cgroup or label(found)
        if key in groups:
            continue
        if content not in by_text:
            known = {name: folders(mounted[name], path) for name, path in found.items() if name in mounted}
            by_text[content] = facts({name: there for name, there in known.items() if os.path.isdir(there[0])})
        groups[key] = by_text[content]
    return groups
