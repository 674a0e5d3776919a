"""A launch over several nodes: who of them was not looked at, and what the sockets of the others tell of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ..engines.argv import number
from ..engines.nodes import endpoint
from ..model.launch import Launch
from ..model.places import place_of
from .ports import port_of
from .view import Picture, View

_LOOPBACK = ("127.", "[::1]")
_NAMED = 4  # hosts that are named
_JOINING = ("rendezvous", "collective")


class Away(msgspec.Struct, frozen=True):
    """Nodes of the launch of which nothing was seen, or no longer."""

    words: str  # a sentence
    names: str  # "node rank 1 (ranks 8 to 15)"; empty when all nodes were seen once
    never_came: bool = False  # they never connected to where the nodes meet; else they may be what the others wait for
    address: str = ""


def away(view: View) -> Away | None:
    """What of the launch was not looked at; None when every node was, and can be reached."""
    names = _names(view)
    lost = [place for number, place in enumerate(view.history.places) if number in view.history.lost_since]
    hosts = "; ".join(f"{one.host} could not be reached: {one.detail or one.lost}" for one in lost)
    if not names:
        members = [pid for pid in view.launch.members if view.history.lost(pid) is not None]
        return (
            Away(hosts, "") if members or (lost and view.launch.nodes_wanted == 1 and _may_have_members(view)) else None
        )
    address = view.launch.nodes[0].address
    known, came = _strangers(view)
    if known and not came:
        words = "; ".join(
            part for part in (f"{names} never connected to the store at {address}", _idle(view), hosts) if part
        )
        return Away(words, names, never_came=True, address=address)
    where = f"; {', '.join(sorted(came))} connected to {address} and was not looked at" if came else ""
    return Away(f"{names} would be on a host not given or not reached{where}" + (f"; {hosts}" if hosts else ""), names)


def _idle(view: View) -> str:
    """Hosts that were looked at and have no part of the launch."""
    busy = {place_of(pid) for pid in view.launch.members}
    places = enumerate(view.history.places)
    idle = [one.host for place, one in places if place not in busy and place not in view.history.lost_since]
    shown = ", ".join(idle[:_NAMED]) + (f" and {len(idle) - _NAMED} more" if len(idle) > _NAMED else "")
    return f"nothing of it runs on {shown}" if idle else ""


def _may_have_members(view: View) -> bool:
    """Whether a launch of one command may have members on other hosts: Ray starts them there."""
    return view.launch.args.get("distributed-executor-backend") == "ray"


def _names(view: View) -> str:
    """The nodes that were not seen, with their ranks."""
    launch = view.launch
    seen = {one.rank for one in launch.nodes}
    if launch.nodes_wanted < 2 or None in seen or not launch.nodes:
        return ""
    missing = [rank for rank in range(launch.nodes_wanted) if rank not in seen]
    if not missing:
        return ""
    ranks = number(launch.args, "tensor-parallel-size") * number(launch.args, "pipeline-parallel-size")
    local, rest = divmod(ranks, launch.nodes_wanted)
    nodes = f"node rank{'s' if len(missing) > 1 else ''} {_spans(missing)}"
    if rest or not local:
        return nodes
    theirs = [rank * local + index for rank in missing for index in range(local)]
    return f"{nodes} (rank{'s' if len(theirs) > 1 else ''} {_spans(theirs)})"


def _spans(numbers: Sequence[int]) -> str:
    """ "0, 2 to 5, 9"."""
    spans: list[list[int]] = []
    for one in numbers:
        if spans and one == spans[-1][-1] + 1:
            spans[-1][1:] = [one]
        else:
            spans.append([one])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]} to {span[1]}" for span in spans)


def _strangers(view: View) -> tuple[bool, set[str]]:
    """(whether the place where the nodes meet was seen, addresses connected to it that are of no host looked at)."""
    _, port = endpoint(view.launch.nodes[0].address)
    rows = [row for row in view.history.sockets if row.family.startswith("tcp")]
    served = any(row.state == "LISTEN" and port_of(row.local) == port for row in rows)
    homes = {_host(row.local) for row in rows if row.state != "LISTEN"}
    far = {_host(row.remote) for row in rows if port_of(row.local) == port and row.remote}
    return served and bool(port), {one for one in far if one not in homes and not one.startswith(_LOOPBACK)}


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def mark(view: View, pictures: Sequence[Picture]) -> list[Picture]:
    """Pictures in which ranks that cannot reach the place where the nodes meet say so, and those that wait there for a
    node that never came name it."""
    if view.launch.nodes_wanted < 2:
        return list(pictures)
    missing = away(view)
    stranded = _stranded(view, pictures)
    return [_marked(one, stranded.get(one.member.pid), missing) for one in pictures]


def _marked(one: Picture, address: str | None, missing: Away | None) -> Picture:
    if address is not None:
        words = f"cannot reach the place where the nodes meet, {address}: its connection is not answered"
        return replace(one, mechanism="socket-connect", detail=words, object=address, waits_for="object")
    if missing and missing.never_came and one.member.needed and one.mechanism == "rendezvous":
        words = f"{one.detail} for {missing.names}, which never connected to the store at {missing.address}"
        return replace(one, detail=words, object=missing.names)
    return one


def _stranded(view: View, pictures: Sequence[Picture]) -> dict[int, str]:
    """Ranks that are in a rendezvous without any connection to where they were told to meet -> that address."""
    found: dict[int, str] = {}
    if not view.history.sockets:
        return found
    owners = {
        fd.inode: pid
        for pid, track in view.history.tracks.items()
        for fd in (track.process.fds or {}).values()
        if fd.kind == "socket"
    }
    of_node = by_member(view.launch)
    for one in pictures:
        node = of_node.get(one.member.pid)
        if one.mechanism != "rendezvous" or not one.member.needed or node is None:
            continue
        host, port = view.launch.nodes[node].address.rpartition(":")[0], port_of(view.launch.nodes[node].address)
        states = {
            row.state
            for row in view.history.sockets
            if owners.get(row.inode) == one.member.pid and port in (port_of(row.remote), port_of(row.local))
        }
        if states == {"SYN_SENT"} or (not states and host != view.launch.nodes[0].address.rpartition(":")[0]):
            found[one.member.pid] = view.launch.nodes[node].address
    return found


def by_member(launch: Launch) -> dict[int, int]:
    """Members -> the place in `launch.nodes` of the node that each belongs to; who belongs to none is left out."""
    found = {one.root: index for index, one in enumerate(launch.nodes)}
    alone: dict[int, list[int]] = {}  # place of a host -> nodes on it
    for root, index in found.items():
        alone.setdefault(place_of(root), []).append(index)
    for pid in launch.members if launch.nodes else ():
        way, at = [], pid
        while at not in found and at in launch.members and at not in way:
            way.append(at)
            at = launch.members[at].ppid
        here = alone.get(place_of(pid), [])
        node = found.get(at, here[0] if len(here) == 1 else None)
        found.update(dict.fromkeys(way, node) if node is not None else {})
    return found


def may_be_elsewhere(view: View, behind: Picture) -> tuple[str, ...]:
    """What was not looked at and could be what a member waits for; nothing where the wait is not for other members."""
    if behind.waits_for != "ranks" and behind.mechanism not in _JOINING:
        return ()
    found = away(view)
    return (found.words,) if found is not None and not found.never_came else ()
