"""NETLINK_ROUTE in pure Python: interfaces, their addresses, default routes. Forms: rtnetlink(7), linux/if_link.h.

It needs no privilege and shows the namespace that the netlink socket belongs to.
"""

from __future__ import annotations

import socket
import struct
from typing import Dict, List, Tuple

from ..model.network import Interface
from .netlink import attributes, messages

NETLINK_ROUTE = 0
RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE = 18, 22, 26
LINK = struct.Struct("=BBHiII")  # family, pad, type, index, flags, change
ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
ROUTE = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, protocol, scope, type, flags
IFNAME, MTU, LINKINFO, INFO_KIND = 3, 4, 18, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
OIF, MULTIPATH = 4, 9
UP, LOOPBACK, RUNNING = 0x1, 0x8, 0x40
INFINIBAND = 32  # ARPHRD_INFINIBAND
UNICAST = 1  # RTN_UNICAST
LIMIT = 512


def interfaces(link: socket.socket) -> Dict[int, Interface]:
    """Interfaces by index, with their addresses. Raises OSError."""
    addresses: Dict[int, List[str]] = {}
    for one in messages(link, ADDRESS.pack(0, 0, 0, 0, 0), RTM_GETADDR):
        index, text = parse_address(one)
        if text:
            addresses.setdefault(index, []).append(text)
    found: Dict[int, Interface] = {}
    for one in messages(link, LINK.pack(0, 0, 0, 0, 0, 0), RTM_GETLINK):
        if len(one) >= LINK.size and len(found) < LIMIT:
            index, row = parse_link(one, addresses)
            found[index] = row
    return found


def parse_link(data: bytes, addresses: Dict[int, List[str]]) -> Tuple[int, Interface]:
    """One ifinfomsg with its attributes: (index, interface). Pure."""
    _, _, kind, index, flags, _ = LINK.unpack_from(data)
    told = attributes(data[LINK.size :])
    info = attributes(told.get(LINKINFO, b"")).get(INFO_KIND, b"").rstrip(b"\0")
    mtu = told.get(MTU, b"")
    return index, Interface(
        name=told.get(IFNAME, b"").rstrip(b"\0").decode("utf-8", "backslashreplace"),
        addresses=tuple(addresses.get(index, ())),
        up=bool(flags & UP),
        running=bool(flags & RUNNING),
        loopback=bool(flags & LOOPBACK),
        mtu=struct.unpack("=I", mtu)[0] if len(mtu) == 4 else None,
        kind=info.decode("ascii", "replace") or ("infiniband" if kind == INFINIBAND else ""),
    )


def parse_address(data: bytes) -> Tuple[int, str]:
    """One ifaddrmsg: (index of the interface, "address/prefix"); "" for another family. Pure."""
    if len(data) < ADDRESS.size:
        return 0, ""
    family, prefix, _, _, index = ADDRESS.unpack_from(data)
    told = attributes(data[ADDRESS.size :])
    raw = told.get(IFA_LOCAL, told.get(IFA_ADDRESS, b""))  # of a point-to-point link the second is the other end
    if (family, len(raw)) not in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
        return index, ""
    return index, f"{socket.inet_ntop(family, raw)}/{prefix}"


def default_routes(link: socket.socket) -> List[int]:
    """Indexes of the interfaces of default routes, each once. Raises OSError."""
    found: Dict[int, None] = {}
    for one in messages(link, ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0), RTM_GETROUTE):
        if len(one) < ROUTE.size:
            continue
        _, length, _, _, _, _, _, kind, _ = ROUTE.unpack_from(one)
        told = attributes(one[ROUTE.size :])
        out = told.get(OIF, told.get(MULTIPATH, b"")[4:8])  # rtnexthop: length, flags, hops, index
        if length == 0 and kind == UNICAST and len(out) == 4:
            found[struct.unpack("=I", out)[0]] = None
    return list(found)
