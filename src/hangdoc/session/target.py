"""From what a user typed to the launch that is meant."""

from __future__ import annotations

from collections.abc import Sequence

from ..engines import launches, load
from ..hosts.channel import Channel
from ..model.ask import Ask, HealthAsk
from ..model.frozen import replace
from ..model.launch import Launch
from ..model.places import own, place_of
from ..model.sample import Sample


class NoLaunch(Exception):
    """There is no launch to look at. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class SeveralLaunches(NoLaunch):
    """Several launches, and none was named, or a process that is above several of them (`above`)."""

    def __init__(self, found: Sequence[Launch], above: int | None = None) -> None:
        rows = "\n".join(f"  {name_of(one)}    {one.engine}{_port(one)}" for one in found)
        where = f"run below process {own(above)}" if above is not None else "run here and none was named"
        super().__init__(f"{len(found)} launches {where}", f"name one of these processes:\n{rows}")


def name_of(launch: Launch) -> str:
    """What to type to mean this launch: the number of its root, after its host where there are several."""
    host = launch.members[launch.root].host if launch.root in launch.members else ""
    return f"{host}:{own(launch.root)}" if host else str(launch.root)


def _port(launch: Launch) -> str:
    return f", port {launch.port}" if launch.port is not None else ""


def scan(channel: Channel, deadline_s: float = 5.0, *, together: bool = False) -> Sample:
    """Every process of the host, or of all hosts. `together`: many questions will follow.

    Where launches run on several hosts, the variables of their roots tell which of them are nodes of one.
    """
    sample = channel.ask(Ask(0, ("scan",), deadline_s=deadline_s, together=together))
    roots = [one.root for one in find(sample)]
    if len({place_of(root) for root in roots}) < 2:
        return sample
    answer = channel.ask(Ask(0, ("environ",), pids=tuple(roots), deadline_s=deadline_s))
    told = {root: answer.processes[root].env for root in roots if root in answer.processes}
    known = {pid: replace(one, env=told[pid]) if told.get(pid) else one for pid, one in sample.processes.items()}
    return replace(sample, processes=known)


def find(sample: Sample) -> list[Launch]:
    """Launches of known engines in a scan."""
    return launches.find(sample, load.profiles())


def choose(channel: Channel, sample: Sample, pid: int | None) -> Launch:
    """The launch meant by `pid` (any member or wrapper of it), or the only one, or the only one that is not ready."""
    found = find(sample)
    if pid is not None:
        named = launches.launch_of(pid, found, sample)
        below = [one for one in found if pid in launches.ancestors(one.root, sample.processes)]
        if named is None and len(below) > 1:  # their sum would say of a hung one that something moves
            raise SeveralLaunches(below, pid)
        if named is None and pid in sample.processes:
            named = launches.unknown_launch(pid, sample)
        if named is None:
            raise NoLaunch(f"there is no process {own(pid)} here", "hangdoc ps lists the launches that can be seen")
        return named
    if not found:
        raise NoLaunch(
            f"no vLLM or SGLang launch runs here that this user can see{_mute(sample)}",
            "name any process of it: hangdoc diagnose PID; or run as the user who started it, or as root",
        )
    if len(found) > 1:
        ready = ready_roots(channel, found)
        found = [one for one in found if one.root not in ready] or found
    if len(found) > 1:
        raise SeveralLaunches(found)
    return found[0]


def _mute(sample: Sample) -> str:
    """What is added where the launch may be among processes that told nothing of themselves."""
    silent = [(own(one.pid), one.detail) for one in sample.unseen if one.probe == "scan" and one.pid is not None]
    if not silent:
        return ""
    more = f", and {len(silent) - 1} more" if len(silent) > 1 else ""
    return f"; process {silent[0][0]}: {silent[0][1]}{more}"


def only(sample: Sample) -> Launch:
    """The launch in a scan that nobody can ask further. Raises NoLaunch."""
    found = find(sample)
    if not found:
        raise NoLaunch(
            "it shows no vLLM or SGLang launch", "name a process of it: python3 FILE PID, where the agent ran"
        )
    if len(found) > 1:
        raise SeveralLaunches(found)
    return found[0]


def ready_roots(channel: Channel, found: Sequence[Launch]) -> set[int]:
    """Roots of the launches whose health path answers 200 now. The same port may be another one in another container."""
    profiles = load.profiles()
    asks = [
        HealthAsk(one.root, one.port, profiles[one.engine].health)
        for one in found
        if one.port is not None and one.head  # the other nodes of SGLang answer 200 whatever happens
    ]
    answer = channel.ask(Ask(0, ("health",), health=asks))
    return {one.pid for one in answer.health if one.status == 200}
