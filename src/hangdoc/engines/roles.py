"""Roles and ranks of a launch's processes: by title, by command line, else by place in the tree. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

from ..model.launch import Member, Rank
from ..model.sample import Process
from ..model.words import Phase, Role
from .argv import number, program
from .load import PatternSet, pattern
from .profile import Profile, Title

_TITLE_BOUND = 200
_LOCAL_BOUND = 1024  # engine processes of one kind on one host: arguments may claim anything
_SPAWNED = re.compile(r"from multiprocessing\.(?:spawn|forkserver) import|--multiprocessing-fork")
_RANK_NAMES = ("dp", "pp", "tp", "ep", "world")
# A child of one of these that bears its parent's title is a copy of it and no rank.
_CHILDLESS: tuple[Role, ...] = ("worker", "scheduler", "detokenizer", "tokenizer")
_PARENTS: tuple[Role, ...] = ("launcher", "dp-controller")  # whose children's order is known
# What a compiler, downloader or helper starts is its own business.
_HEREDITARY: tuple[Role, ...] = ("compiler", "downloader", "helper", "ray")


def title_of(process: Process) -> str:
    """What people see in ps, bounded; of a process without a command line, its name."""
    return (" ".join(process.cmdline or ()).strip() or process.comm)[:_TITLE_BOUND]


class _Reader:
    """The patterns of one profile, and what they said of the command lines seen so far."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._titles = PatternSet([one.match for one in profile.titles])
        self._commands = PatternSet(list(profile.child_roles))
        self._roles = list(profile.child_roles.values())
        self.title = functools.lru_cache(maxsize=4096)(self._title)
        self.command = functools.lru_cache(maxsize=4096)(self._command)

    def _title(self, text: str) -> tuple[Title, Rank] | None:
        for index in self._titles.hits(text):
            one = self.profile.titles[index]
            if found := pattern(one.match).search(text):
                return one, rank_of(found.groupdict())
        return None

    def _command(self, text: str) -> Role | None:
        hits = self._commands.hits(text)
        return self._roles[hits[0]] if hits else None


_READERS: dict[str, _Reader] = {}


def _reader(profile: Profile) -> _Reader:
    # By identity: hashing a whole profile for each process would cost more than the match.
    known = _READERS.get(profile.engine)
    if known is None or known.profile is not profile:
        known = _READERS[profile.engine] = _Reader(profile)
    return known


def rank_of(groups: Mapping[str, str | None]) -> Rank:
    """A rank from the named groups of a title or prefix."""
    return Rank(**{name: int(groups[name] or 0) for name in _RANK_NAMES if groups.get(name)})


def titled(process: Process, profile: Profile) -> tuple[Title, Rank] | None:
    """The title rule that a process's title meets, with the rank in it."""
    return _reader(profile).title(title_of(process))


def title_phase(title: str, profile: Profile) -> Phase | None:
    """How far whoever bears this title has got at least."""
    found = _reader(profile).title(title)
    return found[0].phase if found else None


def _by_command(process: Process, profile: Profile) -> Role | None:
    return _reader(profile).command(title_of(process))


def _is_worker_like(process: Process, parent: Process) -> bool:
    """Whether it was started by multiprocessing, or forked from its parent without an exec: a part of the engine.

    A zombie has no command line any more; it counts, for the last thing to hide is a rank that died.
    """
    if process.state == "Z" or not process.cmdline:
        return process.comm == parent.comm or program((process.comm,)).kind == "python"
    return bool(_SPAWNED.search(title_of(process))) or process.cmdline == parent.cmdline


def _env_rank(process: Process) -> Rank:
    value = (process.env or {}).get("RANK", "")
    return Rank(world=int(value)) if value.isdecimal() and value.isascii() else Rank()


def _sizes(args: Mapping[str, str]) -> tuple[int, int, int, int, int]:
    """TP, PP and DP sizes, number of nodes and this node's rank: both engines name these arguments alike."""
    tp, pp, dp = (number(args, f"{kind}-parallel-size", 1) for kind in ("tensor", "pipeline", "data"))
    return tp, pp, dp, max(number(args, "nnodes", 1), 1), number(args, "node-rank", 0)


def _place(index: int, tp: int, pp: int, nodes: int, node: int) -> Rank:
    """The rank of the index-th engine process of a node: pipeline stages outside, tensor ranks inside."""
    world = index + node * max(tp * pp // nodes, 1)
    if tp * pp == 1:
        return Rank()
    return Rank(tp=world % tp if tp > 1 else None, pp=world // tp if pp > 1 else None, world=world)


def _expected(profile: Profile, parent: Role, args: Mapping[str, str]) -> list[tuple[Role, Rank]] | None:
    """What the untitled children of `parent` are in the order of their start, as far as the arguments tell."""
    role = profile.untitled.get(parent)
    if role is None and parent not in _PARENTS:
        return None
    tp, pp, dp, nodes, node = _sizes(args)
    local = min(max(tp * pp // nodes, 1), _LOCAL_BOUND)
    ranks = [_place(index, tp, pp, nodes, node) for index in range(local)]
    if profile.engine == "sglang" and parent == "launcher":
        first: list[tuple[Role, Rank]] = (
            [("dp-controller", Rank())] if dp > 1 else [("scheduler", rank) for rank in ranks]
        )
        last: list[tuple[Role, Rank]] = [("detokenizer", Rank())] if node == 0 else []
        return first + last
    if profile.engine == "sglang" and parent == "dp-controller" and dp > 1 and "enable-dp-attention" not in args:
        return [
            ("scheduler", Rank(dp=group, tp=rank.tp, pp=rank.pp))
            for group in range(min(dp, _LOCAL_BOUND))
            for rank in ranks
        ]
    if role == "worker" and profile.engine == "vllm":
        return [(role, rank) for rank in ranks] if tp * pp > 1 else []  # TP 1 works inside the engine core
    if role == "scheduler":
        return [(role, rank) for rank in ranks]
    return None


def _merge(seen: Rank, placed: Rank) -> Rank:
    """The rank that a title or variable says, else the one that the place in the tree says."""
    return seen if seen != Rank() else placed


def _borrowed(process: Process, parent: Process) -> bool:
    """Whether a child still lives in its parent's memory: vfork keeps the parent in state D until another program is loaded."""
    return parent.state == "D" and process.cmdline == parent.cmdline


def _children_roles(
    parent: Member, pids: Sequence[int], processes: Mapping[int, Process], profile: Profile, args: Mapping[str, str]
) -> dict[int, tuple[Role, Rank]]:
    """Roles and ranks of one member's children, which come in the order of their start."""
    found: dict[int, tuple[Role, Rank]] = {}
    if not pids:  # most have none; what is expected of a parent is as long as the launch has ranks
        return found
    expected = _expected(profile, parent.role, args)
    place = 0
    for pid in pids:
        process = processes[pid]
        if parent.role in _HEREDITARY:
            found[pid] = parent.role, Rank()
            continue
        named = titled(process, profile)
        if named and named[0].role == parent.role and parent.role in _CHILDLESS:  # forked, and not yet another program
            found[pid] = "helper", Rank()
            continue
        if not named and (role := _by_command(process, profile)):
            found[pid] = role, Rank()
            continue
        if not named and _borrowed(process, processes[parent.pid]):
            found[pid] = "helper", Rank()
            continue
        if not named and not _is_worker_like(process, processes[parent.pid]):
            found[pid] = "helper", Rank()
            continue
        own = named[1] if named else _env_rank(process)
        if named and (expected is None or all(role != named[0].role for role, _ in expected)):
            found[pid] = named[0].role, own
            continue
        if expected is None:
            found[pid] = profile.untitled.get(parent.role, "helper"), own
            continue
        role, rank = expected[place] if place < len(expected) else ("helper", Rank())
        place += 1
        if named and named[0].role != role:  # the title knows better than the order
            role, rank = named[0].role, Rank()
        found[pid] = role, _merge(own, rank)
    return found


def assign(
    root: int, pids: Iterable[int], processes: Mapping[int, Process], profile: Profile, args: Mapping[str, str]
) -> dict[int, Member]:
    """Members by pid. `pids` holds parents before children, siblings in the order of their start."""
    pids = list(pids)
    inside = set(pids)
    below: dict[int, list[int]] = {}
    for pid in pids:
        below.setdefault(processes[pid].ppid, []).append(pid)
    members: dict[int, Member] = {}

    def add(pid: int, role: Role, rank: Rank) -> None:
        process = processes[pid]
        members[pid] = Member(pid, process.start, role, rank, title_of(process), process.ppid)

    for pid in pids:
        if pid not in members:  # the root, or an orphan whose parent is gone
            named = titled(processes[pid], profile)
            fallback: Role = profile.root_role if pid == root else (_by_command(processes[pid], profile) or "helper")
            add(pid, named[0].role if named else fallback, named[1] if named else Rank())
        roles = _children_roles(
            members[pid], [one for one in below.get(pid, ()) if one in inside], processes, profile, args
        )
        for child, (role, rank) in roles.items():
            add(child, role, rank)
    return members if profile.engine != "vllm" else _several_front_ends(root, members)


def _several_front_ends(root: int, members: dict[int, Member]) -> dict[int, Member]:
    """A vLLM root with API servers below it serves no HTTP itself: it is their launcher."""
    if root in members and any(one.role == "api-server" and pid != root for pid, one in members.items()):
        one = members[root]
        members[root] = Member(one.pid, one.start, "launcher", one.rank, one.title, one.ppid)
    return members
