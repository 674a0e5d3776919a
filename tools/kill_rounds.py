#!/usr/bin/env python3
"""Kill hangdoc, or its tool, with -9 at random moments of the steps of --deep, and see that every target thread is as it was.

    tools/kill_rounds.py [--rounds 200] [--tool-rounds 50] [--seed N]

Real targets of 64 threads: `threads` (they sleep, poll, wait for locks, compute, write to an eventfd), `vfork` (the main
thread is in state D), `stopped` (by SIGSTOP before we came). The first is attached to; the others have to be refused.
`late-d` is `vfork` without the refusal: what happens when a thread falls into state D after it was looked at. Compared are
State (T, t, any other), TracerPid, SigPnd and ShdPnd of every thread. Status 1 when any differs.
Only processes that this script started are killed. Needs py-spy, strace, a C compiler.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

THREADS = 64
TARGETS = ("threads", "vfork", "stopped", "late-d")
STEPS = ("native", "strace")
LONGEST_S = {"native": 0.4, "strace": 2.2}  # a kill comes within so long after the question
SETTLE_S = 5.0
Thread = tuple[str, str, str, str]  # State (T, t, else "-"), TracerPid, SigPnd, ShdPnd

TARGET = """
import ctypes, os, select, sys, threading, time
lock = threading.Lock()
lock.acquire()
ready, wake = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
def epoll():
    poller = select.epoll()
    poller.register(wake, select.EPOLLIN)
    while True:
        poller.poll()
def compute():
    while True:
        sum(range(1000))
        time.sleep(0.001)
def write():
    while True:
        os.write(ready, (1).to_bytes(8, "little"))
        time.sleep(0.001)
kinds = [lambda: time.sleep(10000), lambda: lock.acquire(), epoll, lambda: os.read(os.pipe()[0], 1)]
work = [compute, write] + [kinds[at % len(kinds)] for at in range(int(sys.argv[1]) - 3)]
for one in work:
    threading.Thread(target=one, daemon=True).start()
print("ready", flush=True)
if sys.argv[2]:
    ctypes.CDLL(sys.argv[2]).go()
time.sleep(10000)
"""
VFORK = "#include <unistd.h>\nint go(void) { if (vfork() == 0) { pause(); _exit(0); } return 0; }\n"
# hangdoc itself, reduced to the question: its agent, the guardian and the tool are the real ones
DRIVER = """
import sys
from hangdoc.hosts.local import LocalChannel
from hangdoc.model.ask import Ask
from hangdoc.session.look import find_pyspy
pid, step = int(sys.argv[1]), sys.argv[2]
channel = LocalChannel()
print("asking", flush=True)
sample = channel.ask(Ask(1, (step,), pids=(pid,), deep_pids=(pid,), pyspy=find_pyspy(), deadline_s=5.0))
print([(one.reason, one.detail) for one in sample.unseen], flush=True)
channel.close()
"""
LATE = """
import sys, time
from hangdoc.agent import guardian
from hangdoc.agent.isolate import Nursery
from hangdoc.probes import processes, pyspy, strace
from hangdoc.session.look import find_pyspy
pid, step = int(sys.argv[1]), sys.argv[2]
process = processes.list_all()[pid]
native = [find_pyspy(), "dump", "--native", "--json", "--pid", str(pid)]
command = native if step == "native" else strace.command(strace.find()[0], pid)
def task(emit):
    guardian.attach("/proc", process, step, command, 2.0, guardian.standing("/proc", process))
print("asking", flush=True)
Nursery().run_all({0: task}, time.monotonic() + 4)
"""


def threads_of(pid: int) -> dict[int, Thread]:
    """Every thread of a process, as far as it must not change."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = dict(line.partition(":\t")[::2] for line in (task / "status").read_text().splitlines())
        state = fields["State"][0]
        found[int(task.name)] = (
            state if state in "Tt" else "-",
            fields["TracerPid"],
            fields["SigPnd"],
            fields["ShdPnd"],
        )
    return found


def children(pid: int) -> list[int]:
    """Child processes, empty when it is gone."""
    try:
        return [
            int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def family(pid: int) -> list[int]:
    """A process and its descendants, parents first."""
    found = [pid]
    for one in found:
        found.extend(children(one))
    return found


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def is_tool(pid: int) -> bool:
    """Whether a process is py-spy or strace, by its name."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() in ("py-spy", "strace")
    except OSError:
        return False


@contextmanager
def target(kind: str, folder: Path) -> Iterator[int]:
    """The pid of a real target, ended afterwards with the child of its vfork."""
    library = ""
    if kind in ("vfork", "late-d"):
        library = str(folder / "vfork.so")
        (folder / "vfork.c").write_text(VFORK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "vfork.c"], check=True)
    process = subprocess.Popen(
        [sys.executable, "-c", TARGET, str(THREADS), library], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.3)
        if kind == "stopped":
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
        yield process.pid
    finally:
        for pid in reversed(family(process.pid)):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


@dataclass
class Tally:
    """What came of the rounds of one target, step and victim."""

    rounds: int = 0
    attached: int = 0  # rounds in which the kill found the tool attached
    changed: list[str] = field(default_factory=list)


def one_round(pid: int, kind: str, step: str, *, tool: bool, tally: Tally) -> None:
    """Start, kill at a random moment, wait until nothing of ours runs, compare."""
    before = threads_of(pid)
    code = LATE if kind == "late-d" else DRIVER
    driver = subprocess.Popen(
        [sys.executable, "-c", code, str(pid), step], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert driver.stdout
    driver.stdout.readline()
    waits = tool or random.random() < 0.5  # before the tool is there as well as while it is
    if waits:
        wait_for(lambda: any(map(is_tool, family(driver.pid))) or not running(driver.pid))
    time.sleep(random.uniform(0, LONGEST_S[step] / (4 if waits and step == "native" else 1)))
    ours = family(driver.pid)
    tools = [one for one in ours if is_tool(one)]
    tally.rounds += 1
    tally.attached += any(one[1] != before[tid][1] for tid, one in threads_of(pid).items() if tid in before)
    # hangdoc itself in half of the rounds, else its agent or the agent's child: any of them can be killed
    victims = tools if tool else [driver.pid] if random.random() < 0.5 else [one for one in ours if one not in tools]
    if victims:
        kill(random.choice(victims))
    if tool:
        driver.wait(15)  # it has to live on and to answer
    else:
        kill(driver.pid)
        driver.wait()
    driver.stdout.close()
    wait_for(lambda: not any(map(running, ours)) and not changes(before, pid))
    tally.changed += changes(before, pid)
    for one in filter(running, ours):
        tally.changed.append(f"process {one} of hangdoc is left")
        kill(one)


def wait_for(true: Callable[[], bool]) -> None:
    """Wait until `true()` is, at most `SETTLE_S`."""
    end = time.monotonic() + SETTLE_S
    while not true() and time.monotonic() < end:
        time.sleep(0.01)


def kill(pid: int) -> None:
    """SIGKILL to a process of ours that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def changes(before: dict[int, Thread], pid: int) -> list[str]:
    """Threads that are not as they were."""
    now = threads_of(pid)
    return [f"thread {tid}: {one} is now {now.get(tid)}" for tid, one in before.items() if now.get(tid) != one]


def main(arguments: list[str]) -> int:
    """Run the rounds, print a table. Returns 1 when a thread was changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="rounds in which hangdoc is killed")
    parser.add_argument("--tool-rounds", type=int, default=50, help="rounds in which the tool is killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    random.seed(options.seed)
    if missing := [one for one in ("strace", "cc") if shutil.which(one) is None]:
        print(f"needs {' and '.join(missing)}")
        return 2
    bad = 0
    print(f"{'target':8} {'step':7} {'killed':8} {'rounds':>6} {'attached':>8} {'changed':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in TARGETS:
            with target(kind, Path(folder)) as pid:
                for what, count in (("hangdoc", options.rounds), ("tool", options.tool_rounds)):
                    # the refusals have no tool to be killed
                    share = Counter(_plan(count, tool=what == "tool"))
                    for step in STEPS:
                        tally = Tally()
                        for _ in range(share[kind, step]):
                            one_round(pid, kind, step, tool=what == "tool", tally=tally)
                        if tally.rounds:
                            print(
                                f"{kind:8} {step:7} {what:8} {tally.rounds:6} {tally.attached:8} {len(tally.changed):7}",
                                flush=True,
                            )
                        for line in tally.changed:
                            print("   ", line)
                        bad += len(tally.changed)
    return 1 if bad else 0


def _plan(count: int, *, tool: bool) -> Iterator[tuple[str, str]]:
    """Which target and step each round has: half of them the one that is attached to, the others in turn."""
    rest = ("late-d",) if tool else ("vfork", "stopped", "late-d")
    for number in range(count):
        kind = "threads" if number % 4 < 2 else rest[number // 4 % len(rest)]
        yield kind, STEPS[number % 2]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
