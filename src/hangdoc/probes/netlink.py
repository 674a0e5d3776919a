"""NETLINK_SOCK_DIAG in pure Python: TCP sockets with their clocks, unix sockets with their peers.

Message forms: linux/netlink.h, linux/inet_diag.h, linux/unix_diag.h, linux/tcp.h. One dump of a few hundred sockets
takes some milliseconds; it needs no privilege, but shows only the namespace that the netlink socket belongs to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Dict, Iterator, List, Tuple

from ..model.frozen import replace
from ..model.sample import Socket, TcpInfo

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
INET_DIAG_INFO = 2
UNIX_NAME, UNIX_PEER, UNIX_ICONS, UNIX_RQLEN = 0, 2, 3, 4
UNIX_SHOW = 0x1 | 0x4 | 0x8 | 0x10  # name, peer, not yet accepted connections, queue lengths

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
INET_REQUEST = struct.Struct("=BBBBI48s")
INET_REPLY = struct.Struct("=BBBB2s2s16s16sIIIIIIII")
UNIX_REQUEST = struct.Struct("=BBHIIIII")
UNIX_REPLY = struct.Struct("=BBBBIII")

LISTEN = 10  # TCP_LISTEN, net/tcp_states.h
TCP_STATES = {
    1: "ESTABLISHED",
    2: "SYN_SENT",
    3: "SYN_RECV",
    4: "FIN_WAIT1",
    5: "FIN_WAIT2",
    6: "TIME_WAIT",
    7: "CLOSE",
    8: "CLOSE_WAIT",
    9: "LAST_ACK",
    LISTEN: "LISTEN",
    11: "CLOSING",
    12: "SYN_RECV",  # TCP_NEW_SYN_RECV: a handshake of a listener
}
UNIX_STATES = {1: "CONNECTED", 7: "UNCONNECTED", LISTEN: "LISTEN"}


def attributes(data: bytes) -> Dict[int, bytes]:
    """Type -> payload of the attributes after a message; a broken one ends the list."""
    found = {}
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        size, kind = ATTRIBUTE.unpack_from(data, at)
        if size < ATTRIBUTE.size or at + size > len(data):
            break
        found[kind & 0x3FFF] = data[at + ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3
    return found


def address(family: int, raw: bytes, port: int) -> str:
    """Address and port as people write them; an IPv4 address that was mapped into IPv6 is written as IPv4."""
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(socket.AF_INET, raw[:4])}:{port}"
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return f"{socket.inet_ntop(socket.AF_INET, raw[12:])}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, raw)}]:{port}"


def tcp_info(raw: bytes) -> TcpInfo:
    """The fields of `struct tcp_info` that tell how long a connection has been silent (milliseconds there)."""
    (unacked,) = struct.unpack_from("=I", raw, 24)
    sent, _, received = struct.unpack_from("=III", raw, 44)
    return TcpInfo(last_recv_s=received / 1000, last_sent_s=sent / 1000, retransmits=raw[2], unacked=unacked)


def parse_tcp(data: bytes, net_ns: int | None) -> Socket:
    """One inet_diag_msg with its attributes."""
    family, state, _, _, sport, dport, src, dst, _, _, _, _, rqueue, wqueue, _, inode = INET_REPLY.unpack_from(data)
    info = attributes(data[INET_REPLY.size :]).get(INET_DIAG_INFO, b"")
    listening = state == LISTEN
    return Socket(
        inode=inode,
        family="tcp" if family == socket.AF_INET else "tcp6",
        state=TCP_STATES.get(state, str(state)),
        local=address(family, src, int.from_bytes(sport, "big")),
        remote="" if listening else address(family, dst, int.from_bytes(dport, "big")),
        recv_queue=rqueue,
        send_queue=wqueue,
        net_ns=net_ns,
        info=None if listening or len(info) < 56 else tcp_info(info),
    )


def parse_unix(data: bytes, net_ns: int | None) -> Tuple[Socket, Tuple[int, ...]]:
    """One unix_diag_msg, and the inodes of those who connected to it and were not accepted yet."""
    _, _, state, _, inode, _, _ = UNIX_REPLY.unpack_from(data)
    found = attributes(data[UNIX_REPLY.size :])
    queues = struct.unpack("=II", found[UNIX_RQLEN]) if len(found.get(UNIX_RQLEN, b"")) == 8 else (0, 0)
    peer = struct.unpack("=I", found[UNIX_PEER])[0] if len(found.get(UNIX_PEER, b"")) == 4 else None
    icons = found.get(UNIX_ICONS, b"")
    waiting = struct.unpack(f"={len(icons) // 4}I", icons[: len(icons) // 4 * 4])
    row = Socket(
        inode=inode,
        family="unix",
        state=UNIX_STATES.get(state, str(state)),
        local=unix_name(found.get(UNIX_NAME, b"")),
        peer=peer or None,
        recv_queue=queues[0],
        send_queue=queues[1],
        net_ns=net_ns,
    )
    return row, tuple(one for one in waiting if one)


def unix_name(raw: bytes) -> str:
    """Path of a unix socket; an abstract one begins with @, as `ss` and /proc/net/unix write it."""
    shown = b"@" + raw[1:] if raw[:1] == b"\0" else raw.rstrip(b"\0")
    return shown.decode("utf-8", "backslashreplace").replace("\0", "@")


def messages(link: socket.socket, request: bytes, kind_asked: int = SOCK_DIAG_BY_FAMILY) -> Iterator[bytes]:
    """Payloads of one dump. Raises OSError for the error that the kernel reports."""
    link.send(HEADER.pack(HEADER.size + len(request), kind_asked, REQUEST_DUMP, 1, 0) + request)
    while True:
        data = link.recv(1 << 16)
        at = 0
        while at + HEADER.size <= len(data):
            size, kind, _, _, _ = HEADER.unpack_from(data, at)
            if size < HEADER.size or kind == NLMSG_DONE:
                return
            body = data[at + HEADER.size : at + size]
            if kind == NLMSG_ERROR:
                code = -struct.unpack_from("=i", body)[0]
                raise OSError(code, os.strerror(code))
            yield body
            at += (size + 3) & ~3
        if not data:
            raise OSError(errno.EPIPE, "netlink ended without an end record")


def dump_tcp(link: socket.socket, net_ns: int | None, listening_on: int | None = None) -> List[Socket]:
    """Every TCP socket of the namespace of `link`, IPv4 and IPv6, or only those that listen on a port: then the kernel
    looks through its few listeners alone. Raises OSError."""
    rows: List[Socket] = []
    states = 0xFFFFFFFF if listening_on is None else 1 << LISTEN
    wanted = (listening_on or 0).to_bytes(2, "big").ljust(48, b"\0")  # struct inet_diag_sockid: the own port first
    for family in (socket.AF_INET, socket.AF_INET6):
        request = INET_REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0, states, wanted)
        rows.extend(parse_tcp(one, net_ns) for one in messages(link, request) if len(one) >= INET_REPLY.size)
    return rows


def dump_unix(link: socket.socket, net_ns: int | None) -> List[Socket]:
    """Every unix socket of the namespace of `link`. Raises OSError.

    A client that was not accepted yet has no peer of its own; it is given its listener's inode as `peer`, because
    that is who has to act.
    """
    request = UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, UNIX_SHOW, 0, 0)
    rows: Dict[int, Socket] = {}
    listener_of: Dict[int, int] = {}
    for one in messages(link, request):
        if len(one) >= UNIX_REPLY.size:
            row, waiting = parse_unix(one, net_ns)
            rows[row.inode] = row
            listener_of.update((client, row.inode) for client in waiting)
    for client, listener in listener_of.items():
        if client in rows and rows[client].peer is None:
            rows[client] = replace(rows[client], peer=listener)
    return [
        replace(row, remote=rows[row.peer].local) if row.peer in rows and rows[row.peer].local else row
        for row in rows.values()
    ]
