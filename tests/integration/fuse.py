"""A real file system that stops answering: FUSE, spoken by a child that answers the greeting and nothing else, or shows one
file that it never reads."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MNT_DETACH = 2
MS_PRIVATE_ALL = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
CLONE_NEWNS = 0x20000
# Answers FUSE_INIT (fuse(4): in header 40 bytes, out header 16), takes every other request and keeps silent.
DAEMON = r"""
import os, struct, sys
fd = int(sys.argv[1])
request = os.read(fd, 1 << 17)
unique, = struct.unpack_from("=Q", request, 8)
body = struct.pack("=IIIIHHI", 7, 31, 0, 0, 12, 10, 4096) + bytes(40)
os.write(fd, struct.pack("=IiQ", 16 + len(body), 0, unique) + body)
print("ready", flush=True)
while True:
    os.read(fd, 1 << 17)
"""
# Shows one file of 1 MiB, whatever it is asked for by name; answers everything but reads (opcodes of linux/fuse.h).
ONE_FILE = r"""
import os, struct, sys
fd = int(sys.argv[1])
def attributes(node):
    size, mode = (0, 0o40755) if node == 1 else (1 << 20, 0o100644)
    return struct.pack("=6Q10I", node, size, size >> 9, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def answer(opcode, node):
    if opcode == 26:
        return struct.pack("=IIIIHHI", 7, 31, 0, 0, 12, 10, 4096) + bytes(40)
    if opcode == 1:
        return struct.pack("=4Q2I", 2, 0, 3600, 3600, 0, 0) + attributes(2)
    if opcode == 3:
        return struct.pack("=Q2I", 3600, 0, 0) + attributes(node)
    if opcode == 14:
        return struct.pack("=Q2I", 1, 0, 0)
    return b"" if opcode in (18, 25) else None
while True:
    request = os.read(fd, 1 << 17)
    length, opcode, unique, node = struct.unpack_from("=IIQQ", request)
    if opcode in (2, 15, 36, 42):  # forgets and interrupts have no answer; a read gets none
        continue
    body = answer(opcode, node)
    error, body = (0, body) if body is not None else (-38, b"")  # ENOSYS
    os.write(fd, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
    if opcode == 26:
        print("ready", flush=True)
"""


@contextlib.contextmanager
def private_mounts(libc: ctypes.CDLL) -> Iterator[None]:
    """A mount namespace of our own, so that no other process, and no other test, meets the silent mount."""
    home, here = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY), Path.cwd()
    try:
        if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None) != 0:
            pytest.skip("no mount namespace can be made here")
        try:
            yield
        finally:
            assert libc.setns(home, CLONE_NEWNS) == 0
            os.chdir(here)
    finally:
        os.close(home)


@contextlib.contextmanager
def silent_mount(point: Path, daemon: str = DAEMON) -> Iterator[Path]:
    """Mount it; afterwards the daemon's end aborts every request and the mount is taken away."""
    libc = ctypes.CDLL(None, use_errno=True)
    with private_mounts(libc):
        yield from _silent_mount(libc, point, daemon)


def _silent_mount(libc: ctypes.CDLL, point: Path, daemon: str) -> Iterator[Path]:
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"silent", bytes(point), b"fuse", 6, options) != 0:
        os.close(device)
        pytest.skip("no FUSE mount here: " + os.strerror(ctypes.get_errno()))
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", daemon, str(device)], pass_fds=[device], stdout=subprocess.PIPE
    )
    os.close(device)
    try:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        yield point
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()
        libc.umount2(bytes(point), MNT_DETACH)
