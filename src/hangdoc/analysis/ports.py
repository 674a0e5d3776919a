"""Who listens on the ports of a launch: a member, or somebody else who was there before."""

from __future__ import annotations

from ..model.places import place_of, place_of_inode
from ..model.words import Role
from .view import View

# None of these answers HTTP. They listen on dozens of ports that the kernel picks, and one may be that of the server.
_NO_SERVERS: frozenset[Role] = frozenset(
    ("engine-core", "worker", "scheduler", "detokenizer", "dp-controller", "dp-coordinator")
)


def port_of(address: str) -> int | None:
    """The port of "address:port"; None when there is none."""
    port = address.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else None


def listeners(view: View) -> dict[int, int | None]:
    """The same on the host of the node that serves HTTP."""
    return by_host(view).get(place_of(view.launch.root), {})


def servers(view: View) -> dict[int, int | None]:
    """The same, with None also where a member listens that serves no HTTP: to the server such a port is taken."""
    return {port: pid if pid is None or may_serve(view, pid) else None for port, pid in listeners(view).items()}


def may_serve(view: View, pid: int) -> bool:
    """Whether a member may be one that answers HTTP."""
    return pid == view.launch.root or view.history.tracks[pid].member.role not in _NO_SERVERS


def by_host(view: View) -> dict[int, dict[int, int | None]]:
    """Place -> TCP port -> pid of the member that listens on it; None where it is certain that no member does.

    A port whose listener may belong to a member whose descriptors were not seen is left out.
    """
    tracks = view.history.tracks
    owners = {
        fd.inode: pid
        for pid, track in tracks.items()
        for fd in (track.process.fds or {}).values()
        if fd.kind == "socket" and fd.inode
    }
    unseen = {
        place_of(pid)
        for pid, track in tracks.items()
        if not track.process.fds and track.gone is None and track.process.state not in "ZX"
    }
    roots = [pid for pid in (view.launch.root, *(one.root for one in view.launch.nodes)) if pid in tracks]
    spaces = {place_of(pid): tracks[pid].process.net_ns for pid in reversed(roots)}
    found: dict[int, dict[int, int | None]] = {}
    for row in view.history.sockets:
        port = port_of(row.local) if row.state == "LISTEN" and row.family.startswith("tcp") else None
        if port is None:
            continue
        place = place_of_inode(row.inode)
        net_ns = spaces.get(place)
        if row.inode in owners:
            found.setdefault(place, {})[port] = owners[row.inode]
        elif place not in unseen and None not in (row.net_ns, net_ns) and row.net_ns == net_ns:
            found.setdefault(place, {}).setdefault(port, None)
    return found
