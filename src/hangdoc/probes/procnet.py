"""`/proc/PID/net/{tcp,tcp6,unix}`: the sockets of a namespace without netlink, and so without clocks and peers.

Form: Documentation/networking/proc_net_tcp.rst; proc(5). Addresses are 32-bit words in the byte order of the host.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import List, Optional

from ..model.sample import Socket
from .netlink import TCP_STATES, address
from .reading import text

UNIX_LISTENING = 0x10000  # __SO_ACCEPTCON
UNIX_STATES = {1: "UNCONNECTED", 2: "CONNECTING", 3: "CONNECTED", 4: "DISCONNECTING"}


def endpoint(shown: str) -> str:
    """`0100007F:1F90` as 127.0.0.1:8080. Raises ValueError."""
    host, _, port = shown.partition(":")
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    if len(raw) not in (4, 16):
        raise ValueError(shown)
    return address(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw, int(port, 16))


def parse_tcp(content: str, family: str, net_ns: Optional[int]) -> List[Socket]:
    """Rows of `tcp` or `tcp6`; lines of another form are passed over."""
    rows = []
    for line in content.splitlines()[1:]:
        parts = line.split()
        try:
            state = int(parts[3], 16)
            sent, received = parts[4].split(":")
            rows.append(
                Socket(
                    inode=int(parts[9]),
                    family=family,
                    state=TCP_STATES.get(state, str(state)),
                    local=endpoint(parts[1]),
                    remote="" if TCP_STATES.get(state) == "LISTEN" else endpoint(parts[2]),
                    recv_queue=int(received, 16),
                    send_queue=int(sent, 16),
                    net_ns=net_ns,
                )
            )
        except (IndexError, ValueError):
            continue
    return rows


def parse_unix(content: str, net_ns: Optional[int]) -> List[Socket]:
    """Rows of `unix`; lines of another form are passed over."""
    rows = []
    for line in content.splitlines()[1:]:
        parts = line.split(None, 7)
        try:
            listening = int(parts[3], 16) & UNIX_LISTENING
            state = "LISTEN" if listening else UNIX_STATES.get(int(parts[5], 16), parts[5])
            name = parts[7].rstrip() if len(parts) > 7 else ""
            rows.append(Socket(inode=int(parts[6]), family="unix", state=state, local=name, net_ns=net_ns))
        except (IndexError, ValueError):
            continue
    return rows


def read(root: str, pid: int, net_ns: Optional[int]) -> List[Socket]:
    """TCP and unix sockets of the network namespace of `pid`. Raises OSError."""
    rows = parse_tcp(text(f"{root}/{pid}/net/tcp", 1 << 24), "tcp", net_ns)
    with contextlib.suppress(FileNotFoundError):  # no IPv6 in this kernel
        rows += parse_tcp(text(f"{root}/{pid}/net/tcp6", 1 << 24), "tcp6", net_ns)
    return rows + parse_unix(text(f"{root}/{pid}/net/unix", 1 << 24), net_ns)
