"""Two collectives over TCP: rank 0 gathers one number from every other rank and sends the sum back."""

from __future__ import annotations

import socket
import struct
import time

_NUMBER = struct.Struct("!q")


class ProcessGroup:
    """The connections of one rank: rank 0 has one to every other rank, the others have one to rank 0."""

    def __init__(self, rank: int, peers: list[socket.socket]) -> None:
        self.rank = rank
        self.peers = peers


def init_process_group(rank: int, world_size: int, port: int, timeout: float = 60.0) -> ProcessGroup:
    """Join the ranks. Raises TimeoutError when they do not all come."""
    if rank == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(timeout)
            group = ProcessGroup(rank, [server.accept()[0] for _ in range(world_size - 1)])
    else:
        group = ProcessGroup(rank, [_connect(port, time.monotonic() + timeout)])
    for peer in group.peers:
        peer.setblocking(True)
    return group


# In the original these wait in native code, so that they are the innermost Python frames of a rank that waits. Here they
# receive by themselves for the same reason. A rank that went away gives no bytes, and unpack raises struct.error.


def all_reduce(value: int, group: ProcessGroup) -> int:
    """The sum of `value` over all ranks, on every rank."""
    if group.rank != 0:
        group.peers[0].sendall(_NUMBER.pack(value))
        return int(_NUMBER.unpack(group.peers[0].recv(_NUMBER.size, socket.MSG_WAITALL))[0])
    total = value
    for peer in group.peers:
        total += int(_NUMBER.unpack(peer.recv(_NUMBER.size, socket.MSG_WAITALL))[0])
    for peer in group.peers:
        peer.sendall(_NUMBER.pack(total))
    return total


def monitored_barrier(group: ProcessGroup) -> None:
    """Return when every rank has come here."""
    if group.rank != 0:
        group.peers[0].sendall(_NUMBER.pack(1))
        _NUMBER.unpack(group.peers[0].recv(_NUMBER.size, socket.MSG_WAITALL))
        return
    for peer in group.peers:
        _NUMBER.unpack(peer.recv(_NUMBER.size, socket.MSG_WAITALL))
    for peer in group.peers:
        peer.sendall(_NUMBER.pack(1))


def broadcast(value: int | None, group: ProcessGroup) -> int:
    """Rank 0's value, on every rank."""
    if value is None:
        return int(_NUMBER.unpack(group.peers[0].recv(_NUMBER.size, socket.MSG_WAITALL))[0])
    for peer in group.peers:
        peer.sendall(_NUMBER.pack(value))
    return value


def _connect(port: int, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
