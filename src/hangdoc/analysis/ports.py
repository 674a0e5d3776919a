"""Who listens on the ports of a launch: a member, or somebody else who was there before."""

from __future__ import annotations

from ..model.places import place_of
from .view import View


def port_of(address: str) -> int | None:
    """The port of "address:port"; None when there is none."""
    port = address.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else None


def listeners(view: View, place: int | None = None) -> dict[int, int | None]:
    """TCP port of a host -> pid of the member that listens on it; None where it is certain that no member does.

    Without a `place` it is the host of the node that serves HTTP.
    A port whose listener may belong to a member whose descriptors were not seen is left out.
    """
    place = place_of(view.launch.root) if place is None else place
    tracks = {pid: track for pid, track in view.history.tracks.items() if place_of(pid) == place}
    owners = {
        fd.inode: pid
        for pid, track in tracks.items()
        for fd in (track.process.fds or {}).values()
        if fd.kind == "socket" and fd.inode
    }
    all_seen = all(
        track.process.fds for track in tracks.values() if track.gone is None and track.process.state not in "ZX"
    )
    roots = (view.launch.root, *(one.root for one in view.launch.nodes))
    net_ns = next((tracks[pid].process.net_ns for pid in roots if pid in tracks), None)
    found: dict[int, int | None] = {}
    for row in view.history.sockets:
        port = port_of(row.local)
        if port is None or row.state != "LISTEN" or not row.family.startswith("tcp"):
            continue
        if row.inode in owners:
            found[port] = owners[row.inode]
        elif all_seen and None not in (row.net_ns, net_ns) and row.net_ns == net_ns:
            found.setdefault(port, None)
    return found
