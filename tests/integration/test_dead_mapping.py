"""A target with a mapping on a file system that stopped answering: neither hangdoc nor the target may hang by the look."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fuse import ONE_FILE, silent_mount

# One thread waits for a page of the file for ever; another one maps and unmaps memory, which needs the lock that a careless
# reader of such a page would keep, and counts how often it came round.
TARGET = """
import ctypes, mmap, os, sys, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDONLY)
address = libc.mmap(None, 1 << 20, 1, 2, file, 0)
threading.Thread(target=libc.strlen, args=(ctypes.c_void_p(address),), daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
for line in sys.stdin:
    area = mmap.mmap(-1, 1 << 20)
    area[0] = 1
    area.close()
    print("alive", flush=True)
"""


def test_both_go_on(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    point = tmp_path / "dead"
    point.mkdir()
    with silent_mount(point, ONE_FILE):
        target = subprocess.Popen(
            [sys.executable, "-c", TARGET, point / "weights"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert target.stdin is not None
        assert target.stdout is not None
        try:
            assert target.stdout.readline() == "ready\n"
            states = [one.read_text() for one in Path(f"/proc/{target.pid}/task").glob("*/wchan")]
            assert any("request_wait_answer" in one or "folio" in one for one in states), states
            began = time.monotonic()
            words = [sys.executable, "-m", "hangdoc", "diagnose", str(target.pid), "--json", "--timeout", "20"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
            assert time.monotonic() - began < 45
            report = json.loads(done.stdout)
            assert [one["pid"] for one in report["processes"]] == [target.pid]
            target.stdin.write("\n")
            target.stdin.flush()
            assert target.stdout.readline() == "alive\n"
        finally:
            target.kill()
            target.stdin.close()
            target.stdout.close()
    target.wait(timeout=10)
