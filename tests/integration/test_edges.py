"""Edges of waits in whole reports about real processes: each kind with its holder, and near misses that claim nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pythons import WITH_GIL, WITH_LOCKS
from targets import compiled, eventually, running

from hangdoc.agent.tick import Ticker
from hangdoc.codec import convert
from hangdoc.hosts.local import LocalChannel
from hangdoc.model.ask import Ask
from hangdoc.model.report import End, Report
from hangdoc.model.sample import Sample
from hangdoc.session import target
from hangdoc.session.look import Look, Options

NOBODY: list[End | None] = [None]
PYTHON_TARGET = Path(__file__).parent / "waiting.py"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("waiting"))


def report_of(pid: int, looks: int = 3) -> Report:
    """What a few looks at a launch say."""
    channel = LocalChannel()
    try:
        first = target.scan(channel)
        look = Look(channel, target.choose(channel, first, pid), first, Options(stacks=False))
        for number in range(looks):
            look.tick(stacks=False, budget_s=5.0)
            time.sleep(0.2 if number < looks - 1 else 0)
        return look.diagnosis.report("0")
    finally:
        channel.close()


def edges(report: Report) -> set[tuple[str, int | None, int | None]]:
    """(via, tid that waits, tid or pid that it waits for; None for nobody) of every edge."""
    return {
        (one.via, one.source.tid, (end.tid or end.pid) if end else None)
        for one in report.waits
        for end in (one.target or NOBODY)
    }


@pytest.mark.parametrize(
    ("mode", "via", "pairs"),
    [
        ("abba", "mutex", [("a", "b"), ("b", "a")]),
        ("self", "mutex", [("waiter", "waiter")]),
        ("recursive", "mutex", [("waiter", "main")]),
        ("errorcheck", "mutex", [("waiter", "main")]),
        ("robust", "mutex", [("waiter", "main")]),
        ("pi", "mutex", [("waiter", "main")]),
        ("timed", "mutex", [("waiter", "main")]),
        ("rwlock", "rwlock", [("reader", "main"), ("writer", "main")]),
        ("join", "join", [("waiter", "sleeper")]),
    ],
)
def test_locks_of_threads(program: Path, mode: str, via: str, pairs: list[tuple[str, str]]) -> None:
    with running([program, mode]) as (pid, tids):
        found = edges(report_of(pid))
        names = {tid: name for name, tid in tids.items()}
        told = {(kind, names.get(waiter or 0), names.get(holder or 0)) for kind, waiter, holder in found if kind == via}
        assert told == {(via, waiter, holder) for waiter, holder in pairs}


@pytest.mark.parametrize("mode", ["cond", "sem", "latch", "rwlock-read", "nap", "poll"])
def test_what_nobody_holds_has_no_edge(program: Path, mode: str) -> None:
    with running([program, mode]) as (pid, _):
        assert edges(report_of(pid)) == set()


def test_a_mutex_inherited_through_fork_leads_to_nobody(program: Path) -> None:
    with running([program, "forked"]) as (pid, tids):
        report = report_of(pid)
        assert ("mutex", tids["child"], None) in edges(report)
        assert not [one for one in edges(report) if one[0] == "mutex" and one[2] is not None]


def test_a_shared_mutex_leads_to_the_other_process(program: Path) -> None:
    with running([program, "shared"]) as (pid, tids):
        assert ("mutex", tids["child"], pid) in edges(report_of(pid))


def test_a_full_pipe_to_itself_and_a_fifo_lead_to_nobody_known(program: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running([program, "pipe"]) as (pid, tids):
        assert ("pipe", tids["waiter"], None) in edges(report_of(pid))
    with running([program, "open", fifo]) as (pid, tids):
        report = report_of(pid)
        assert ("fifo", tids["waiter"], None) in edges(report)
        assert str(fifo) in [one.object for one in report.waits]


@pytest.mark.parametrize("python", WITH_LOCKS)
def test_python_locks_taken_by_with(python: str) -> None:
    with running([python, PYTHON_TARGET, "abba"]) as (pid, tids):
        found = {one for one in edges(report_of(pid)) if one[0] == "python-lock"}
        assert found == {("python-lock", tids["a"], tids["b"]), ("python-lock", tids["b"], tids["a"])}
    with running([python, PYTHON_TARGET, "acquire"]) as (pid, _):
        assert "python-lock" not in {one[0] for one in edges(report_of(pid))}


@pytest.mark.parametrize("python", WITH_GIL[-1:])
def test_the_gil_held_in_native_code(python: str) -> None:
    with running([python, PYTHON_TARGET, "gil"]) as (pid, _):
        time.sleep(0.5)
        found = [one for one in report_of(pid, looks=5).waits if one.via == "gil"]
        assert {one.source.tid for one in found} == {pid}
        assert {end.tid for one in found for end in one.target or ()} != {pid}
        assert found


CHAIN = """
import os, socket, sys, time
# parent -pipe-> A -unix-> B -tcp-> C, which sleeps
reading, writing = os.pipe()
near, far = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid
def c():
    os.close(reading), os.close(writing), near.close(), far.close()
    connection = server.accept()[0]
    server.close()
    while True:
        time.sleep(1000)
def b():
    os.close(reading), os.close(writing), near.close()
    client = socket.create_connection(server.getsockname())
    server.close()
    client.recv(1)
def a():
    os.close(reading), far.close(), server.close()
    near.recv(1)
for name, work in (("c", c), ("b", b), ("a", a)):
    os.write(1, b"%s=%d\\n" % (name.encode(), child(work)))
os.close(writing), near.close(), far.close(), server.close()
os.write(1, b"ready\\n")
os.read(reading, 1)
"""


@contextmanager
def chain() -> Iterator[tuple[int, dict[str, int]]]:
    with running([sys.executable, "-c", CHAIN]) as found:
        time.sleep(0.7)
        yield found


def test_a_chain_of_four_processes_ends_in_the_stopped_one() -> None:
    with chain() as (pid, pids):
        os.kill(pids["c"], signal.SIGSTOP)
        found = edges(report_of(pid))
        assert {("pipe", pid, pids["a"]), ("unix", pids["a"], pids["b"]), ("tcp", pids["b"], pids["c"])} <= found
        words = [sys.executable, "-m", "hangdoc", "diagnose", str(pid), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert f'"culprits":[{{"host":"{os.uname().nodename}","pid":{pids["c"]}' in done.stdout
        assert done.returncode == 1


CYCLE = """
import os, socket
left, right = socket.socketpair()
if os.fork() == 0:
    left.close()
    os.write(1, b"child=%d\\nready\\n" % os.getpid())
    right.recv(1)
right.close()
left.recv(1)
"""


def test_a_circle_of_two_processes_through_a_socket_is_told_and_is_no_proof() -> None:
    with running([sys.executable, "-c", CYCLE]) as (pid, pids):
        report = report_of(pid)
        assert {("unix", pid, pids["child"]), ("unix", pids["child"], pid)} <= edges(report)
        assert {one.certainty for one in report.waits} == {"likely"}


FLOCK = """
import fcntl, os, sys, time
path, (taken, says) = sys.argv[1], os.pipe()
def take(hold):
    file = open(path, "a")
    fcntl.flock(file, fcntl.LOCK_EX)
    if hold:
        os.write(1, b"holder=%d\\nready\\n" % os.getpid())
        os.write(says, b".")
    time.sleep(1000)
if os.fork() == 0:
    take(True)
os.read(taken, 1)
for name in ("first", "second"):
    pid = os.fork()
    if pid == 0:
        take(False)
    os.write(1, b"%s=%d\\n" % (name.encode(), pid))
time.sleep(1000)
"""


def test_file_locks_of_three_processes(tmp_path: Path) -> None:
    with running([sys.executable, "-c", FLOCK, tmp_path / "lock"]) as (pid, pids):
        time.sleep(1.0)
        report = report_of(pid)
        waiters = {one.source.pid for one in report.waits if one.via == "flock"}
        holders = {end.pid for one in report.waits if one.via == "flock" for end in one.target or ()}
        assert holders == {pids["holder"]}
        assert len(waiters) == 2
        assert pids["holder"] not in waiters


def test_who_waits_for_a_file_lock_is_told_also_when_only_its_holder_is_looked_at(tmp_path: Path) -> None:
    with running([sys.executable, "-c", FLOCK, tmp_path / "lock"]) as (pid, pids):
        ask = Ask(1, ("processes", "threads", "fds"), pids=(pid,), thread_pids=(pids["holder"],))

        def told() -> bool:
            sample = convert(Ticker().answer(ask), Sample)
            assert [number for number, one in sample.processes.items() if one.threads] == [pids["holder"]]
            (lock,) = sample.file_locks
            assert lock.holders == (pids["holder"],)
            return len(set(lock.waiters) & set(sample.processes)) == 2

        assert eventually(told)


ASLEEP = "__import__('time').sleep(1000)"
FIFO = """
import os, sys, time
if os.fork() == 0:
    held = os.open(sys.argv[1], os.O_WRONLY)
    time.sleep(1000)
held = os.open(sys.argv[1], os.O_RDONLY)
os.write(1, b"ready\\n")
time.sleep(1000)
"""
SHARED_LOCK = """
import fcntl, os, sys, time
if os.fork() == 0:
    time.sleep(0.2)
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_SH)
os.write(1, b"ready\\n")
time.sleep(1000)
"""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([CHAIN.replace("client.recv(1)", ASLEEP).replace("near.recv(1)", ASLEEP)
                      .replace("os.read(reading, 1)", ASLEEP)], id="pipe-unix-tcp"),
        pytest.param([CYCLE.replace("left.recv(1)", ASLEEP).replace("right.recv(1)", ASLEEP)], id="socket-pair"),
        pytest.param([FIFO, "object"], id="fifo-open-at-both-ends"),
        pytest.param([SHARED_LOCK, "object"], id="shared-file-lock"),
    ],
)  # fmt: skip
def test_what_is_only_open_or_held_is_no_wait(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "object"
    if words[0] is FIFO:
        os.mkfifo(path)
    with running([sys.executable, "-c", words[0], *([path] if len(words) > 1 else [])]) as (pid, _):
        time.sleep(0.7)
        assert edges(report_of(pid)) == set()


def test_a_socket_that_one_side_alone_waits_at_is_no_circle() -> None:
    with running([sys.executable, "-c", CYCLE.replace("left.recv(1)", ASLEEP)]) as (pid, pids):
        assert edges(report_of(pid)) == {("unix", pids["child"], pid)}
