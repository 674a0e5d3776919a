"""What a look costs beyond its window, and what it does to the target: beside py-spy on the same processes.

The target is a Python process of 63 threads that measures its own scheduling gaps; eight of those stand for TP 8.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness import Row

BAR_S, BAR_PAUSE_MS = 2.0, 0.0
RANKS, THREADS = 8, 200
ROUNDS = 5
# A thread that sleeps 0.5 ms at a time and keeps the worst gap between two of its own instants, asked for by a line.
GAPS = """
import sys, threading, time
for _ in range(61):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
worst = 0.0
def measure():
    global worst
    last = time.perf_counter()
    while True:
        time.sleep(0.0005)
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
threading.Thread(target=measure, daemon=True).start()
print("ready", flush=True)
for _ in sys.stdin:
    print(worst, flush=True)
    worst = 0.0
"""
# A parent whose children wait, with many threads each: `python -c TREE RANKS THREADS`.
TREE = """
import subprocess, sys, threading
child = '''
import sys, threading
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
sys.stdin.read()
'''
words = [sys.executable, "-c", child, sys.argv[2]]
pipes = [subprocess.Popen(words, stdin=subprocess.PIPE) for _ in range(int(sys.argv[1]))]
print(*(one.pid for one in pipes), flush=True)
sys.stdin.read()
"""
_BIN = Path(sys.executable).parent


def _start(code: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(target: subprocess.Popen[str]) -> str:
    assert target.stdout is not None
    return target.stdout.readline()


def _end(target: subprocess.Popen[str]) -> None:
    target.kill()
    target.communicate()


def _states(pid: int) -> set[str]:
    found = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            found.add(stat.read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return found


def _stopped_looks(pid: int, command: list[str]) -> tuple[int, int]:
    """(looks in which some thread was stopped or traced, all looks) while a command runs."""
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stopped = looks = 0
    while tool.poll() is None:
        looks += 1
        stopped += bool(_states(pid) & {"t", "T"})
    return stopped, looks


def _worst_gap(target: subprocess.Popen[str], command: list[str]) -> float:
    assert target.stdin is not None
    target.stdin.write("\n")
    target.stdin.flush()
    _line(target)
    subprocess.run(command, capture_output=True, check=False)
    target.stdin.write("\n")
    target.stdin.flush()
    return 1000 * float(_line(target))


def _pause() -> Iterator[Row]:
    target = _start(GAPS)
    try:
        _line(target)
        pid = str(target.pid)
        ours = [str(_BIN / "hangdoc"), "diagnose", pid, "--json", "--timeout", "4"]
        theirs = [str(_BIN / "py-spy"), "dump", "--pid", pid]
        stopped, looks = _stopped_looks(target.pid, ours)
        blocking = [_stopped_looks(target.pid, theirs) for _ in range(3 * ROUNDS)]
        peer = f"py-spy dump: {sum(one[0] for one in blocking)} of {sum(one[1] for one in blocking)} looks"
        yield Row("looks that saw a thread stopped, 63 threads", "0", f"{stopped} of {looks}", stopped == 0, peer)
        gaps = {name: [_worst_gap(target, words) for _ in range(ROUNDS)] for name, words in
                {"idle": ["sleep", "1"], "hangdoc": ours, "py-spy dump": theirs}.items()}  # fmt: skip
        median = {name: statistics.median(found) for name, found in gaps.items()}
        others = f"py-spy dump {median['py-spy dump']:.1f} ms, nothing at all {median['idle']:.1f} ms"
        yield Row(
            "worst gap seen by a thread of it (competition for CPU included)",
            "",
            f"{median['hangdoc']:.1f} ms",
            None,
            others,
        )
    finally:
        _end(target)


def _beyond_window() -> Iterator[Row]:
    target = _start(TREE, RANKS, THREADS)
    try:
        children = _line(target).split()
        time.sleep(2)
        beyond, cpu = [], []
        for _ in range(3):
            began = time.perf_counter()
            words = [str(_BIN / "hangdoc"), "diagnose", str(target.pid), "--json", "--timeout", "5"]
            report = json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)
            beyond.append(time.perf_counter() - began - report["hangdoc"]["window_s"])
            cpu.append(report["cost"]["cpu_s"] / report["hangdoc"]["samples"])
        began = time.perf_counter()
        for pid in children:
            subprocess.run([str(_BIN / "py-spy"), "dump", "--pid", pid], capture_output=True, check=False)
        peer = time.perf_counter() - began
        took = statistics.median(beyond)
        yield Row(f"diagnose, {RANKS} x {THREADS} threads with stacks, beyond its window", f"<= {BAR_S:.0f} s",
                  f"{took:.2f} s, CPU {statistics.median(cpu):.2f} s a sample", took <= BAR_S,
                  f"{RANKS} x py-spy dump {peer:.2f} s, and a person")  # fmt: skip
    finally:
        _end(target)


def rows() -> Iterator[Row]:
    """Three rows."""
    yield from _pause()
    yield from _beyond_window()
