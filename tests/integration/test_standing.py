"""The standing child: it answers whole questions while nothing blocks, and costs one question a second where something does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from targets import eventually, running

from hangdoc.agent import standing
from hangdoc.agent.isolate import Hangup, Nursery
from hangdoc.agent.standing import Standing
from hangdoc.agent.tick import Ticker
from hangdoc.codec import convert
from hangdoc.hosts.local import LocalChannel
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Process, Sample
from hangdoc.probes import processes

STATE = ("processes", "threads", "fds", "environ")
EVERYTHING = (*STATE, "packages", "sockets", "logs", "host", "kernel", "storage", "network", "machine", "stacks")


@pytest.fixture
def one() -> Iterator[Standing]:
    child = Standing(Nursery())
    yield child
    child.end()
    assert eventually(lambda: child.nursery.abandoned == 0)


def answer(child: Standing, ask: Ask) -> Sample | None:
    message = child.answer(ask)
    return None if message is None else convert(json.loads(message)["sample"], Sample)


def steady(process: Process) -> dict[str, Any]:
    names = ("ppid", "start", "state", "comm", "exe", "cwd", "cmdline", "fds", "env", "limits", "packages", "libraries")
    return {name: getattr(process, name) for name in names}


def test_it_tells_what_a_child_for_each_read_tells_and_forks_for_tools_alone(one: Standing) -> None:
    with running(["sh", "-c", "sleep 300 & echo ready; wait"]) as (pid, _):
        ask = Ask(1, EVERYTHING, pids=(pid,), together=True)
        together, apart = answer(one, ask), convert(Ticker().answer(ask), Sample)
        assert together is not None
        assert set(together.processes) == set(apart.processes)
        assert len(together.processes) == 2
        for number, process in together.processes.items():
            assert steady(process) == steady(apart.processes[number])
            assert set(process.threads or ()) == set(apart.processes[number].threads or ())
        for name in ("file_locks", "logs", "storage", "machine", "host_facts"):
            assert getattr(together, name) is not None
        assert [log.path for log in together.logs] == [log.path for log in apart.logs]
        assert {(one.probe, one.reason, one.pid) for one in together.unseen} == {
            (one.probe, one.reason, one.pid) for one in apart.unseen
        }
        assert together.cost.children == 0
        child = one.pid
        for number in range(2, 5):
            sample = answer(one, Ask(number, STATE, pids=(pid,), together=True))
            assert sample is not None
            assert sample.cost.children == 0
            assert sample.processes[pid].threads
        assert one.pid == child


@pytest.mark.parametrize(("count", "forks"), [(2, False), (3, True)])
def test_a_few_stacks_are_asked_without_a_child_for_each_and_their_cost_is_told(
    one: Standing, tmp_path: Path, count: int, forks: bool
) -> None:
    tool = tmp_path / "py-spy"  # answers late, so that signs of life are needed meanwhile, and spends CPU time
    tool.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo py-spy 0.4.9\nn=0\nwhile [ $n -lt 20000 ]; do n=$((n + 1)); done\n'
        'sleep 1.6\necho \'[{"thread_id": 1, "os_thread_id": null, "frames": []}]\'\n'
    )
    tool.chmod(0o755)
    with running(["sh", "-c", f"{' '.join(['sleep 300 &'] * count)} echo ready; wait"]) as (pid, _):
        pids = eventually(lambda: [p for p in processes.list_all().values() if p.ppid == pid])
        stacked = tuple(sorted(each.pid for each in pids))[:count]
        assert len(stacked) == count
        ask = Ask(1, ("stacks",), pids=(pid,), stack_pids=stacked, pyspy=str(tool), deadline_s=9.0, together=True)
        sample = answer(one, ask)
        assert sample is not None
        assert all(sample.processes[each].stacks for each in stacked)
        assert (sample.cost.children > 0) is forks
        assert sample.cost.cpu_s > 0.01


@pytest.mark.parametrize("name", ["cmdline", "maps", "environ"])
def test_a_read_that_blocks_ends_it_and_the_question_is_answered_all_the_same(
    stub: tuple[Path, int], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "PATIENCE_S", 0.4)
    root, pid = stub
    whole = (root / str(pid) / name).read_bytes()
    (root / str(pid) / name).unlink()
    os.mkfifo(root / str(pid) / name)
    child = Standing(Nursery(), str(root))
    ask = Ask(1, STATE, pids=(pid,), deadline_s=2.0, together=True)
    began = time.monotonic()
    assert child.answer(ask) is None
    assert time.monotonic() - began < 1.5
    assert child.pid is None
    assert eventually(lambda: child.nursery.abandoned == 0)
    assert child.answer(ask) is None  # nor is it tried again so soon
    assert child.pid is None
    monkeypatch.setattr(child, "_again", 0.0)
    (root / str(pid) / name).unlink()
    (root / str(pid) / name).write_bytes(whole)
    sample = answer(child, ask)
    assert sample is not None
    assert sample.processes[pid].threads
    child.end()
    assert eventually(lambda: child.nursery.abandoned == 0)


def test_one_that_cannot_be_ended_has_no_successor() -> None:
    child = Standing(Nursery())
    ask = Ask(1, ("processes",), pids=(os.getpid(),), together=True)
    assert child.answer(ask) is not None
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        child.end()
        assert eventually(lambda: child.nursery.abandoned == 0)
        child._again = 0.0
        child.nursery.unreaped[sleeper.pid] = "standing"  # stands for a child that SIGKILL does not end
        assert child.answer(ask) is None
    finally:
        sleeper.kill()
        sleeper.wait()
    assert child.answer(ask) is not None
    child.end()
    assert eventually(lambda: child.nursery.abandoned == 0)


def test_a_killed_one_costs_no_answer(one: Standing) -> None:
    ask = Ask(1, ("processes",), pids=(os.getppid(),), together=True)
    assert one.answer(ask) is not None
    assert one.pid is not None
    os.kill(one.pid, signal.SIGKILL)
    assert one.answer(ask) is None
    assert os.getppid() in convert(Ticker(one.nursery).answer(ask), Sample).processes


def test_it_holds_nothing_of_its_parent(one: Standing) -> None:
    with Path(__file__).open() as held:
        assert one.answer(Ask(1, ("processes",), pids=(os.getpid(),), together=True)) is not None
        links = [str(link.readlink()) for link in Path(f"/proc/{one.pid}/fd").iterdir()]
        assert held.name not in links
    assert links.count("/dev/null") == 3
    assert sum(link.startswith("pipe:") for link in links) == 2
    assert all(link == "/dev/null" or link.startswith("pipe:") or "pidfd" in link for link in links)


def test_it_says_a_long_question_is_given_up_when_the_caller_has_gone() -> None:
    reading, writing = os.pipe()
    child = Standing(Nursery(hangup_fd=reading))
    assert child.answer(Ask(1, ("processes",), pids=(os.getpid(),), together=True)) is not None
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    os.close(writing)
    with pytest.raises(Hangup):
        child.answer(Ask(2, ("processes",), pids=(os.getpid(),), together=True))
    child.end()
    os.close(reading)
    assert eventually(lambda: child.nursery.abandoned == 0)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_channel_goes_on_with_an_agent_when_its_standing_child_does_not(number: signal.Signals) -> None:
    with running(["sh", "-c", "echo ready; exec sleep 300"]) as (pid, _):
        channel = LocalChannel()
        asked: list[int] = []
        try:
            for question in range(3):
                sample = channel.ask(Ask(question, STATE, pids=(pid,), together=True))
                assert sample.processes[pid].threads
                assert channel.pid is not None
                asked.append(channel.pid)
                if question == 0:
                    os.kill(channel.pid, number)
        finally:
            channel.close()
    assert asked[0] != asked[1] == asked[2]
    assert eventually(lambda: not set(asked) & set(processes.list_all()))


def test_what_blocked_one_of_ours_is_not_met_by_one_of_the_agent_at_once() -> None:
    def standing_of_the_agent() -> list[int]:
        return [one.pid for one in processes.list_all().values() if one.ppid == channel.pid]

    channel = LocalChannel()
    ask = Ask(1, ("processes",), pids=(os.getppid(),), together=True)
    try:
        channel.ask(ask)
        assert channel._standing is not None
        assert channel.pid is not None
        os.kill(channel.pid, signal.SIGKILL)
        for _ in range(2):
            channel.ask(ask)
            assert not standing_of_the_agent()
        channel._standing._again = 0.0
        channel.ask(ask)
        assert len(standing_of_the_agent()) == 1
    finally:
        channel.close()


def test_it_does_nothing_about_signals_that_its_parent_sends_on(one: Standing) -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    try:
        assert one.answer(Ask(1, ("processes",), pids=(os.getppid(),), together=True)) is not None
        assert one.pid is not None
        status = Path(f"/proc/{one.pid}/status").read_text()
        caught_there, blocked = (int(status.partition(f"{name}:\t")[2].split()[0], 16) for name in ("SigCgt", "SigBlk"))
        assert not caught_there & 1 << signal.SIGUSR1 - 1
        assert blocked == 0
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_deaths_are_told_with_their_status(one: Standing) -> None:
    target = subprocess.Popen(["sleep", "300"])
    ask = Ask(1, ("processes",), pids=(target.pid,), together=True)
    assert answer(one, ask) is not None
    target.kill()
    target.wait()
    found = answer(one, ask)
    assert found is not None
    assert [(one.pid, one.status) for one in found.ended] in ([(target.pid, signal.SIGKILL)], [(target.pid, None)])
