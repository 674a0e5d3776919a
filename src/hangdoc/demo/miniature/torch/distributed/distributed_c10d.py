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


# In the original these wait in native code, so that they are the innermost Python frames of a rank that waits. Here they
# accept, connect and receive by themselves for the same reason. A rank that went away gives no bytes, and unpack raises
# struct.error.


def init_process_group(rank: int, world_size: int, address: tuple[str, int], timeout: float = 300.0) -> ProcessGroup:
    """Join the ranks at `address`, which is rank 0's. Raises TimeoutError when they do not all come."""
    deadline = time.monotonic() + timeout
    peers: list[socket.socket] = []
    if rank == 0:
        with socket.create_server(address) as server:
            server.settimeout(timeout)
            while len(peers) < world_size - 1:
                peers.append(socket.socket(fileno=server._accept()[0]))  # type: ignore[attr-defined]
    while rank != 0 and not peers:
        link = socket.socket()
        link.settimeout(20)
        try:
            link.connect(address)
            peers.append(link)
        except OSError:
            link.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    for peer in peers:
        peer.setblocking(True)
    return ProcessGroup(rank, peers)


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
