"""Binary and text forms of socket tables, and which rows matter to a launch."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model.sample import Socket
from hangdoc.probes import netlink, procnet, sockets

LISTENER = Socket(1, "tcp", "LISTEN", "127.0.0.1:8000")
OWN = Socket(2, "tcp", "ESTABLISHED", "127.0.0.1:8000", "127.0.0.1:5000")
FAR = Socket(3, "tcp6", "ESTABLISHED", "127.0.0.1:5000", "127.0.0.1:8000")
WAITING = Socket(0, "tcp", "ESTABLISHED", "127.0.0.1:8000", "127.0.0.1:5001")
PAST = Socket(0, "tcp", "TIME_WAIT", "127.0.0.1:8000", "127.0.0.1:5002")
FOREIGN = Socket(4, "tcp", "ESTABLISHED", "10.0.0.1:22", "10.0.0.2:4000")


def test_select_keeps_own_far_ends_listeners_and_those_not_accepted() -> None:
    kept, dropped = sockets.select([LISTENER, OWN, FAR, WAITING, PAST, FOREIGN], {2})
    assert kept == [OWN, LISTENER, FAR, WAITING]
    assert dropped == 0


def test_select_keeps_unix_peers_only() -> None:
    own = Socket(10, "unix", "CONNECTED", peer=11)
    peer = Socket(11, "unix", "CONNECTED", peer=10)
    pending_client = Socket(12, "unix", "CONNECTED", peer=10)
    other = Socket(13, "unix", "LISTEN", "/run/other")
    assert sockets.select([own, peer, pending_client, other], {10})[0] == [own, peer, pending_client]


def test_select_is_bounded_but_never_drops_own() -> None:
    listeners = [replace(LISTENER, inode=100 + number) for number in range(10)]
    kept, dropped = sockets.select([*listeners, OWN], {2}, limit=3)
    assert (OWN in kept, len(kept), dropped) == (True, 4, 7)


def test_addresses() -> None:
    assert netlink.address(2, bytes([127, 0, 0, 1]) + bytes(12), 80) == "127.0.0.1:80"
    assert netlink.address(10, bytes(15) + b"\1", 80) == "[::1]:80"
    assert netlink.address(10, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1]), 80) == "10.0.0.1:80"


def test_unix_names() -> None:
    assert netlink.unix_name(b"/run/x\0") == "/run/x"
    assert netlink.unix_name(b"\0abstract") == "@abstract"
    assert netlink.unix_name(b"/\xff") == "/\\xff"


def test_tcp_info_clocks() -> None:
    raw = bytearray(104)
    raw[2] = 5
    struct.pack_into("=I", raw, 24, 7)
    struct.pack_into("=III", raw, 44, 1500, 0, 61000)
    info = netlink.tcp_info(bytes(raw))
    assert (info.last_sent_s, info.last_recv_s, info.retransmits, info.unacked) == (1.5, 61.0, 5, 7)


@given(st.binary(max_size=200))
def test_attributes_of_any_bytes_end(data: bytes) -> None:
    for value in netlink.attributes(data).values():
        assert len(value) <= len(data)


@given(st.dictionaries(st.integers(0, 30), st.binary(max_size=20), max_size=5))
def test_attributes_round_trip(wanted: dict[int, bytes]) -> None:
    packed = b"".join(
        struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in wanted.items()
    )
    assert netlink.attributes(packed) == wanted


@pytest.mark.skipif(sys.byteorder != "little", reason="the text is that of a little-endian host")
def test_proc_net_tcp() -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    rest = "00:00000000 00000000     0        0"
    listening = f"   0: 0100007F:1F40 00000000:0000 0A 00000000:00000002 {rest} 77 1 0 100 0 0 10 0"
    connected = f"   1: 0100007F:1F40 0100007F:1389 01 00000003:00000004 {rest} 78 1 0 20 4 30 10 -1"
    content = "\n".join((head, listening, connected, "   broken", ""))
    rows = procnet.parse_tcp(content, "tcp", 5)
    assert rows[0] == Socket(77, "tcp", "LISTEN", "127.0.0.1:8000", recv_queue=2, net_ns=5)
    assert rows[1].remote == "127.0.0.1:5001"
    assert (rows[1].send_queue, rows[1].recv_queue) == (3, 4)
    assert len(rows) == 2


def test_proc_net_unix() -> None:
    content = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 100 /run/a b\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 101\n"
    )
    assert procnet.parse_unix(content, None) == [
        Socket(100, "unix", "LISTEN", "/run/a b"),
        Socket(101, "unix", "CONNECTED"),
    ]


@given(st.text(max_size=200))
def test_any_text_is_no_error(content: str) -> None:
    procnet.parse_tcp("head\n" + content, "tcp", None)
    procnet.parse_unix("head\n" + content, None)
