"""The agent: nothing that blocks costs more than itself, and nothing is left behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from targets import eventually, running

from hangdoc.agent import isolate, resting
from hangdoc.agent.disposable import Emit
from hangdoc.agent.isolate import Hangup, Nursery
from hangdoc.agent.tick import Ticker
from hangdoc.codec import convert
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Sample
from hangdoc.probes import mapped, processes, threads

SOURCES = str(Path(processes.__file__).parents[2])
STATE = ("processes", "threads", "fds", "environ")


def soon(seconds: float = 1.0) -> float:
    return time.monotonic() + seconds


def test_tasks_end_each_in_its_own_way() -> None:
    def sends(emit: Emit) -> None:
        emit({"n": 1})
        emit({"n": 2})

    def hangs(emit: Emit) -> None:
        emit("before")
        time.sleep(60)

    def raises(emit: Emit) -> None:
        emit("before")
        raise RuntimeError("broken")

    def dies(_: Emit) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def floods(emit: Emit) -> None:
        while True:
            emit("x" * 1_000_000)

    nursery = Nursery()
    tasks: dict[Any, Callable[[Emit], None]] = {one.__name__: one for one in (sends, hangs, raises, dies, floods)}
    began = time.monotonic()
    outcomes = nursery.run_all(tasks, soon(0.7))
    assert time.monotonic() - began < 5
    assert {name: (one.ended, one.parts[:2]) for name, one in outcomes.items() if name != "floods"} == {
        "sends": ("done", [{"n": 1}, {"n": 2}]),
        "hangs": ("timed-out", ["before"]),
        "raises": ("failed", ["before"]),
        "dies": ("failed", []),
    }
    assert outcomes["floods"].ended in ("failed", "timed-out")
    assert "broken" in outcomes["raises"].detail
    assert eventually(lambda: nursery.abandoned == 0)


def test_more_tasks_than_run_at_once_all_have_their_turn() -> None:
    def one(number: int) -> Callable[[Emit], None]:
        return lambda emit: emit(number)

    outcomes = Nursery().run_all({number: one(number) for number in range(150)}, soon(20))
    assert [outcomes[number].parts for number in range(150)] == [[number] for number in range(150)]


def test_one_child_does_task_after_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "GROW_S", 20.0)
    nursery = Nursery()
    outcomes = nursery.run_all({number: lambda emit: emit(os.getpid()) for number in range(50)}, soon(20))
    assert nursery.started == len({pid for one in outcomes.values() for pid in one.parts}) == 1


@pytest.mark.parametrize("ends", ["blocks", "raises", "dies"])
def test_a_task_that_does_not_come_back_costs_only_itself(ends: str) -> None:
    def bad(_: Emit) -> None:
        if ends == "raises":
            raise ValueError("two\nlines")
        if ends == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    def good(emit: Emit) -> None:
        emit(time.monotonic())

    nursery = Nursery()
    tasks = {**dict.fromkeys(range(6), bad), **dict.fromkeys(range(6, 300), good)}
    began = time.monotonic()
    outcomes = nursery.run_all(tasks, began + 3)
    assert {one.ended for number, one in outcomes.items() if number >= 6} == {"done"}
    assert max(one.parts[0] for number, one in outcomes.items() if number >= 6) - began < 2.5
    reasons = {"blocks": "timed-out", "raises": "failed", "dies": "failed"}
    details = {"blocks": "", "raises": "ValueError: two lines", "dies": "it ended early"}
    assert {(one.ended, one.detail) for one in list(outcomes.values())[:6]} == {(reasons[ends], details[ends])}
    assert eventually(lambda: nursery.abandoned == 0)


def test_a_child_holds_nothing_of_its_parent() -> None:
    def look(emit: Emit) -> None:
        links = {}
        for one in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed again
                links[one.name] = str(one.readlink())
        emit({"links": links, "leader": os.getsid(0) == os.getpid()})

    with Path(__file__).open() as held:
        part = Nursery().run_all({1: look}, soon(5))[1].parts[0]
        assert held.name not in part["links"].values()
    assert part["leader"]
    assert [part["links"][str(number)] for number in (0, 1, 2)] == ["/dev/null"] * 3
    assert sum(1 for target in part["links"].values() if target.startswith("pipe:")) == 2  # the queue, and its answer


def test_children_end_when_the_callers_side_closes() -> None:
    reading, writing = os.pipe()
    nursery = Nursery(hangup_fd=reading)

    def closes(emit: Emit) -> None:
        emit(os.getpid())
        time.sleep(60)

    closer = subprocess.Popen(["sleep", "0.3"], pass_fds=(writing,))  # holds the other end, then ends
    os.close(writing)
    began = time.monotonic()
    with pytest.raises(Hangup):
        nursery.run_all({1: closes}, soon(30))
    assert time.monotonic() - began < 10
    assert eventually(lambda: nursery.abandoned == 0)
    closer.wait()
    os.close(reading)


ORPHANS = """
import os, sys, time
from hangdoc.agent.isolate import Nursery
def task(emit):
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(60)
Nursery().run_all({1: task}, time.monotonic() + 60)
"""


def test_children_die_with_an_agent_that_was_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    agent = subprocess.Popen([sys.executable, "-c", ORPHANS, note], env={**os.environ, "PYTHONPATH": SOURCES})
    try:
        child = int(eventually(lambda: note.read_text() if note.exists() else None))
        assert child in processes.list_all()
    finally:
        agent.kill()
        agent.wait()
    eventually(lambda: child not in processes.list_all() or processes.list_all()[child].state == "Z")


def test_looking_wakes_no_thread() -> None:
    """Not one thread of a blocked process has run because it was looked at: its scheduler counts stay as they were."""
    with running([sys.executable, "-c", BLOCKED]) as (pid, _):

        def counts() -> dict[str, str]:
            return {one.name: (one / "schedstat").read_text() for one in Path(f"/proc/{pid}/task").iterdir()}

        eventually(lambda: all(one.state == "S" for one in threads.read("/proc", pid, None, []).values()))
        before = counts()
        ticker = Ticker()
        for number in range(3):
            found = answer(ticker, Ask(number, (*STATE, "sockets", "logs"), pids=(pid,))).processes[pid]
            assert found.tracer is None
            assert found.threads
            assert len(found.threads) == len(before) == 4
        assert counts() == before


BLOCKED = """
import threading
lock = threading.Lock()
lock.acquire()
for _ in range(3):
    threading.Thread(target=lock.acquire, daemon=True).start()
print("ready", flush=True)
lock.acquire()
"""


def answer(ticker: Ticker, ask: Ask) -> Sample:
    return convert(ticker.answer(ask), Sample)


@pytest.mark.parametrize("name", ["cmdline", "maps", "environ"])
def test_a_read_that_blocks_for_ever_costs_only_itself(stub: tuple[Path, int], name: str) -> None:
    root, pid = stub
    (root / str(pid) / name).unlink()
    os.mkfifo(root / str(pid) / name)
    ticker = Ticker(root=str(root))
    ask = Ask(1, STATE, pids=(pid,), deadline_s=1.5)
    began = time.monotonic()
    sample = answer(ticker, ask)
    assert time.monotonic() - began < 2.5
    found = sample.processes[pid]
    assert found.threads
    assert found.fds == {}
    assert found.limits
    timed_out = {one.probe for one in sample.unseen if one.reason == "timed-out" and one.pid == pid}
    assert timed_out == {{"cmdline": "processes", "maps": "threads", "environ": "environ"}[name]}
    began = time.monotonic()
    again = answer(ticker, ask)
    assert time.monotonic() - began < 0.5  # it is not tried again so soon
    assert "skipped" in {one.reason for one in again.unseen if one.pid == pid}
    assert (again.processes[pid].cmdline is None) == (name == "cmdline")


def test_past_three_stuck_children_only_harmless_reads_go_on() -> None:
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(5)]
    try:
        nursery = Nursery()
        nursery.unreaped = {one.pid: one.pid for one in sleepers[1:]}  # stands for children that SIGKILL does not end
        sample = answer(Ticker(nursery), Ask(1, (*STATE, "stacks", "host"), pids=(sleepers[0].pid,)))
        found = sample.processes[sleepers[0].pid]
        assert found.threads
        assert found.rss
        assert found.cmdline is None
        assert sample.host_facts is None
        assert ("agent", "skipped") in {(one.probe, one.reason) for one in sample.unseen}
        assert sample.cost.abandoned == 4
    finally:
        for one in sleepers:
            one.kill()
            one.wait()


def test_a_look_at_file_systems_that_got_stuck_is_not_tried_again_while_its_child_is_there() -> None:
    with running(["sh", "-c", "echo ready; exec sleep 300"]) as (pid, _):
        ticker, ask = Ticker(), Ask(1, ("storage",), pids=(pid,))
        assert answer(ticker, ask).storage is not None
        sleeper = subprocess.Popen(["sleep", "60"])
        try:
            ticker.nursery.unreaped = {sleeper.pid: ("storage", 0)}  # stands for a child that SIGKILL does not end
            sample = answer(ticker, ask)
            assert sample.storage is None
            assert ("storage", "skipped") in {(one.probe, one.reason) for one in sample.unseen}
        finally:
            sleeper.kill()
            sleeper.wait()
        assert answer(ticker, ask).storage is not None


def counted(monkeypatch: pytest.MonkeyPatch, probe: ModuleType, name: str) -> list[int]:
    """The processes that a function of a probe is called for from now on, in order."""
    read: list[int] = []
    real = getattr(probe, name)

    def call(root: str, pid: int, *more: Any) -> Any:
        read.append(pid)
        return real(root, pid, *more)

    monkeypatch.setattr(probe, name, call)
    return read


def test_helpers_that_spend_no_time_are_not_read_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch, processes, "state")
    with running(["sh", "-c", "sleep 300 & (while :; do :; done) & echo ready; wait"]) as (pid, _):
        ticker, ask = Ticker(), Ask(1, ("processes",), pids=(pid,), needed=(pid,))

        def named() -> dict[str, int] | None:
            names = {one.comm: one.pid for one in answer(ticker, ask).processes.values() if one.pid != pid}
            return names if "sleep" in names and len(names) == 2 else None

        asleep = eventually(named)["sleep"]
        (busy,) = {one for one in answer(ticker, ask).processes if one not in (pid, asleep)}

        def loaded() -> bool:  # after its exec it still loads libraries
            read.clear()
            answer(ticker, ask)
            return asleep not in read

        assert eventually(loaded)
        read.clear()
        for _ in range(3):
            time.sleep(0.1)
            sample = answer(ticker, ask)
        assert (read.count(pid), read.count(asleep)) == (3, 0)
        assert busy in read
        assert sample.processes[asleep].num_threads == 1
        logs = replace(ask, probes=("processes", "logs"))
        outputs = answer(ticker, logs).processes[asleep].fds
        assert asleep in read
        assert set(outputs or ()) == {1, 2}
        read.clear()
        assert answer(ticker, ask).processes[asleep].fds is None
        assert answer(ticker, logs).processes[asleep].fds == outputs
        assert asleep not in read
        answer(ticker, replace(ask, needed=None))
        assert asleep in read
        monkeypatch.setattr(resting, "ANEW_S", 0.0)
        read.clear()
        answer(ticker, ask)
        assert asleep in read


def test_the_number_given_last_tells_of_new_processes_and_threads_alone() -> None:
    before = processes.newest()
    if before is None:
        pytest.skip("this kernel does not tell the number that it gave last")
    assert any(processes.newest() == processes.newest() for _ in range(20))  # others start some, but not all the time
    subprocess.run(["true"], check=True)
    assert processes.newest() != before
    assert processes.newest("/proc/self") is None  # that shows no namespace


def test_processes_are_listed_only_when_there_may_be_new_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    listed: list[str] = []
    real, number = processes.pids, itertools.count()

    def pids(root: str) -> list[int]:
        listed.append(root)
        return real(root)

    monkeypatch.setattr(processes, "pids", pids)
    ticker = Ticker()
    with running(["sh", "-c", f"echo ready; read line <{tmp_path}/go; sleep 300 & wait"]) as (pid, _):
        ask = Ask(1, ("processes",), pids=(pid,))
        monkeypatch.setattr(processes, "newest", lambda _: 1)
        assert [set(answer(ticker, ask).processes) for _ in range(3)] == [{pid}] * 3
        assert len(listed) == 1
        monkeypatch.setattr(ticker, "_listed_at", float("-inf"))
        answer(ticker, ask)
        assert len(listed) == 2
        monkeypatch.setattr(processes, "newest", lambda _: next(number))
        (tmp_path / "go").write_text("\n")
        assert eventually(lambda: len(answer(ticker, ask).processes) == 2)
        monkeypatch.setattr(processes, "newest", lambda _: None)  # an older kernel
        listed.clear()
        answer(ticker, ask)
        answer(ticker, ask)
        assert len(listed) == 2


def test_what_a_process_has_mapped_is_read_again_after_some_time_or_when_it_has_become_another_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read = counted(monkeypatch, mapped, "read")
    os.mkfifo(tmp_path / "go")
    with running(["sh", "-c", f"echo ready; read line <{tmp_path}/go; exec sleep 300"]) as (pid, _):
        ticker, ask = Ticker(Nursery(sign=lambda: None)), Ask(1, ("storage",), pids=(pid,))
        first, again = answer(ticker, ask).processes[pid], answer(ticker, ask).processes[pid]
        assert read == [pid]
        assert first.weights == again.weights == ()
        assert first.env == again.env != {}
        answer(ticker, Ask(2, ("storage", "environ"), pids=(pid,)))
        assert read == [pid] * 2
        (tmp_path / "go").write_text("\n")
        assert eventually(lambda: answer(ticker, ask).processes[pid].comm == "sleep")
        answer(ticker, ask)  # its exec may come in the middle of the one before
        assert read == [pid] * 3
        monkeypatch.setattr(ticker, "mapped", {one: known._replace(until=0.0) for one, known in ticker.mapped.items()})
        answer(ticker, ask)
        assert read == [pid] * 4


def test_a_tick_follows_descendants_and_takes_over_threads_that_did_not_run() -> None:
    with running(["sh", "-c", "sleep 300 & echo ready; wait"]) as (pid, _):
        ticker = Ticker()
        first = answer(ticker, Ask(1, STATE, pids=(pid,)))
        child = next(one for one in first.processes.values() if one.ppid == pid)  # maybe not yet `sleep`
        eventually(lambda: processes.fill("/proc", child, []).cmdline == ("sleep", "300"))  # type: ignore[union-attr]
        first = answer(ticker, Ask(1, STATE, pids=(pid,)))
        child = first.processes[child.pid]
        assert set(first.processes) == {pid, child.pid}
        assert child.comm == "sleep"
        assert child.cmdline == ("sleep", "300")
        again = answer(ticker, Ask(2, STATE, pids=(pid,)))
        assert again.processes[child.pid].threads == first.processes[child.pid].threads
        assert again.processes[child.pid].cmdline == child.cmdline
        quick = answer(ticker, Ask(3, ("processes",), pids=(pid,)))
        assert quick.processes[child.pid].cmdline == child.cmdline
        assert quick.cost.children == 0
        assert quick.processes[child.pid].threads is None
        outputs = answer(ticker, Ask(4, ("processes", "logs"), pids=(pid,)))
        assert set(outputs.processes[child.pid].fds or ()) == {1, 2}
        assert outputs.cost.children == 1  # for the logs; names of descriptors are read without a child
        only = answer(ticker, Ask(4, STATE, pids=(pid,), thread_pids=(pid,)))
        assert only.processes[child.pid].threads is None
        assert only.processes[pid].threads


def test_a_parent_is_not_remembered_from_a_question_long_ago() -> None:
    with running(["sh", "-c", "sleep 300 & echo ready; wait"]) as (pid, _):
        ticker = Ticker()
        child = next(one for one in answer(ticker, Ask(1, STATE, pids=(pid,))).processes if one != pid)
        ticker.parents[child] = 1  # as if the number had been another process's then
        ticker._parents_at -= 60.0
        assert child in answer(ticker, Ask(2, STATE, pids=(pid,))).processes


def test_logs_are_read_again_only_after_something_was_written(tmp_path: Path) -> None:
    log, other = tmp_path / "own.log", tmp_path / "other.log"
    script = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print(line, end='', file=sys.stderr, flush=True)"
    other.write_text("x\n")
    with log.open("ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=out, stderr=out, text=True
        )
    try:
        assert eventually(lambda: "ready" in log.read_text())
        ticker = Ticker()
        offsets: dict[str, int] = {}

        def look(*named: str) -> list[str]:
            found = answer(
                ticker, Ask(1, ("processes", "logs"), pids=(child.pid,), logs=named, log_offsets=dict(offsets))
            )
            offsets.update({f"{one.path}#{one.inode}": one.size for one in found.logs if one.size is not None})
            return [chunk.text for one in found.logs for chunk in one.chunks]

        assert look() == ["ready\n"]
        for _ in range(3):
            assert look() == []
            assert (
                answer(ticker, Ask(1, ("processes", "logs"), pids=(child.pid,), log_offsets=offsets)).cost.children == 0
            )
        assert look(str(other)) == ["x\n"]  # who writes to that one is not known
        other.write_text("x\ny\n")
        assert look(str(other)) == ["y\n"]
        assert child.stdin
        child.stdin.write("more\n")
        child.stdin.flush()
        assert eventually(lambda: "more" in log.read_text())
        assert look() == ["more\n"]
        offsets.clear()  # another asker, who has nothing yet
        assert look() == ["ready\nmore\n"]
    finally:
        child.kill()
        child.communicate()


def test_a_scan_lists_every_process_with_its_command_line() -> None:
    with running(["sh", "-c", "echo ready; exec sleep 300"]) as (pid, _):
        eventually(lambda: processes.list_all()[pid].comm == "sleep")
        sample = answer(Ticker(), Ask(1, ("scan",)))
        assert sample.processes[pid].cmdline == ("sleep", "300")
        assert sample.processes[pid].threads is None
        assert os.getpid() not in sample.processes  # the agent itself is no part of what it looks at


def test_asked_processes_that_are_gone_are_said_to_be() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    sample = answer(Ticker(), Ask(1, STATE, pids=(process.pid,)))
    assert sample.processes == {}
    assert [(one.pid, one.reason) for one in sample.unseen] == [(process.pid, "gone")]


def test_an_unknown_probe_is_unsupported() -> None:
    sample = answer(Ticker(), Ask(1, ("tea-leaves",)))
    assert [(one.probe, one.reason) for one in sample.unseen] == [("tea-leaves", "unsupported")]


def test_a_long_answer_is_read_in_linear_time() -> None:
    """Megabytes in one line, as a process with thousands of descriptors sends them."""
    nursery = Nursery()
    outcome = nursery.run_all({1: lambda emit: emit("x" * 24_000_000)}, time.monotonic() + 30)[1]
    assert (outcome.ended, len(outcome.parts)) == ("done", 1)
    began = time.process_time()
    nursery.run_all({1: lambda emit: emit("x" * 24_000_000)}, time.monotonic() + 30)
    assert time.process_time() - began < 2
