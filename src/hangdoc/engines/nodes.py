"""One launch over several nodes: which of the launches found belong together, by where they were told to meet. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

import msgspec

from ..model.frozen import replace
from ..model.launch import Launch, Node
from ..model.sample import Sample
from .argv import number
from .profile import Meeting, Profile

_NODES_BOUND = 100_000  # arguments may claim anything
# Addresses that mean "this machine": they say nothing about which one.
_HERE = ("", "0.0.0.0", "::", "127.0.0.1", "::1", "localhost")  # noqa: S104 - compared, not bound


class Claim(msgspec.Struct, frozen=True):
    """What the arguments or variables of one node say about the launch that it is part of."""

    host: str  # where the nodes meet
    port: int
    nodes: int  # how many
    node: int | None  # which of them it is

    @property
    def address(self) -> str:
        """Where the nodes meet, as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoint(text: str) -> tuple[str, int]:
    """Host and port of "host:port", "tcp://host:port" or "[::1]:port"; port 0 where there is none."""
    text = text.strip().partition("://")[2] or text.strip()
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5):
        return text.strip("[]"), 0
    return host.strip("[]"), int(port)


def _by_arguments(args: Mapping[str, str], meeting: Meeting) -> Claim | None:
    host, port = endpoint(args.get(meeting.address, "")) if meeting.address else (args.get(meeting.host, ""), 0)
    port = port or number(args, meeting.port, meeting.default_port)
    if meeting.nodes:
        nodes, node = number(args, meeting.nodes, 1), number(args, meeting.node, 0)
    else:
        size, local = number(args, meeting.size, 1), number(args, meeting.local, 0)
        nodes = -(-size // local) if 0 < local < size else 1
        node = number(args, meeting.first, 0) // local if local else 0
    if not 1 < nodes <= _NODES_BOUND:
        return None
    return Claim(host, port, nodes, node)


def _by_variables(env: Mapping[str, str]) -> Claim | None:
    """What torchrun and Slurm say to what they start."""
    port, nodes = number(env, "MASTER_PORT", 0), number(env, "SLURM_NNODES", 0) or number(env, "GROUP_WORLD_SIZE", 0)
    if not (port and 1 < nodes <= _NODES_BOUND):
        return None
    which = next((name for name in ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID") if env.get(name, "").isdecimal()), "")
    return Claim(env.get("MASTER_ADDR", ""), port, nodes, number(env, which, 0) if which else None)


def claim(launch: Launch, profile: Profile, env: Mapping[str, str] | None = None) -> Claim | None:
    """What a node says about the whole launch; None for a launch of one node."""
    for meeting in profile.meetings:
        found = _by_arguments(launch.args, meeting)
        if found is not None:
            return found
    return _by_variables(env or {})


def _near(one: Claim, other: Claim) -> int:
    """How well two claims agree on where to meet: 0 not at all, 3 to the letter."""
    if one.nodes != other.nodes or one.port != other.port:
        return 0
    if one.host == other.host:
        return 3
    return 2 if one.host in _HERE or other.host in _HERE else 1


def _alike(one: Launch, other: Launch) -> bool:
    """Whether two nodes serve the same model: then they are meant for each other though one was given a wrong address."""

    def shape(launch: Launch) -> tuple[str, ...]:
        model = launch.args.get("model-path") or launch.args.get("model") or ""
        names = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
        return (posixpath.basename(model.rstrip("/")), *(launch.args.get(name, "") for name in names))

    return shape(one) == shape(other)


def join(found: Sequence[Launch], sample: Sample, known: Mapping[str, Profile]) -> list[Launch]:
    """The launches with those that are nodes of one launch made one, the node that serves HTTP first.

    Nodes belong together when they are of one engine, count as many nodes, have different node ranks, and meet at the same
    port and address; nodes that serve the same model belong together also where only the port is the same, for an
    address that does not lead to the others is what such a launch may hang of.
    """
    claims: dict[int, Claim] = {}
    for one in found:
        root = sample.processes.get(one.root)
        told = claim(one, known[one.engine], root.env if root else None) if one.engine in known else None
        if told is not None:
            claims[one.root] = told
    groups: list[list[Launch]] = []
    for one in sorted((one for one in found if one.root in claims), key=lambda one: claims[one.root].node or 0):
        fits = sorted(
            (-near, place)
            for place, group in enumerate(groups)
            if (near := min(_fit(one, other, claims) for other in group))
        )
        if fits and (len(fits) == 1 or fits[0][0] < fits[1][0]):
            groups[fits[0][1]].append(one)
        else:
            groups.append([one])
    return [one for one in found if one.root not in claims] + [_whole(group, claims) for group in groups]


def _fit(one: Launch, other: Launch, claims: Mapping[int, Claim]) -> int:
    mine, theirs = claims[one.root], claims[other.root]
    if one.engine != other.engine or (mine.node == theirs.node and mine.node is not None):
        return 0
    near = _near(mine, theirs)
    return near if near > 1 or _alike(one, other) else 0


def _whole(group: Sequence[Launch], claims: Mapping[int, Claim]) -> Launch:
    nodes = sorted(
        (Node(one.root, one.host, claims[one.root].node, claims[one.root].address, one.head) for one in group),
        key=lambda node: (not node.head, node.rank if node.rank is not None else _NODES_BOUND, node.root),
    )
    head = next(one for one in group if one.root == nodes[0].root)
    return replace(
        head,
        members={pid: member for one in group for pid, member in one.members.items()},
        version=next((one.version for one in group if one.version), None),
        nodes=tuple(nodes),
        nodes_wanted=claims[head.root].nodes,
        wrappers=tuple(
            pid for one in (head, *group) for pid in one.wrappers if one is head or pid not in head.wrappers
        ),
    )
