"""An agent that is short of descriptors, processes or CPU time: it says so, goes on, and lets nothing leak."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from targets import eventually

from hangdoc.agent import deaths, standing
from hangdoc.agent.deaths import Deaths
from hangdoc.agent.isolate import Nursery
from hangdoc.agent.standing import Standing
from hangdoc.agent.tick import Ticker
from hangdoc.model.ask import Ask
from hangdoc.probes import mounts, processes

ASK = Ask(1, ("processes",), pids=(os.getppid(),), together=True)


def descriptors() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


def ended(child: Standing) -> bool:
    child.end()
    return eventually(lambda: child.nursery.abandoned == 0)


def failing(monkeypatch: pytest.MonkeyPatch, name: str, after: int) -> None:
    """`os.NAME` fails for want of descriptors or processes from the call `after` on."""
    real, calls = getattr(os, name), iter(range(1000))

    def maybe(*words: Any) -> Any:
        if next(calls) >= after:
            raise OSError(errno.EAGAIN if name == "fork" else errno.EMFILE, "no more of them")
        return real(*words)

    monkeypatch.setattr(os, name, maybe)


@pytest.mark.parametrize(("name", "after"), [("pipe2", 0), ("pipe2", 1), ("fork", 0)])
def test_a_standing_child_that_cannot_be_started_is_no_error_and_leaks_nothing(
    name: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, before = Standing(Nursery()), descriptors()
    with monkeypatch.context() as patch:
        failing(patch, name, after)
        assert child.answer(ASK) is None
    assert (child.pid, descriptors()) == (None, before)
    assert child.answer(ASK) is None  # nor is it tried again so soon
    child._again = 0.0
    assert child.answer(ASK) is not None
    assert ended(child)


def test_an_error_in_the_standing_child_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_descriptors(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    child = Standing(Nursery())
    with monkeypatch.context() as patch:
        patch.setattr(Ticker, "answer", out_of_descriptors)
        assert child.answer(ASK) is None
    assert child.pid is None
    assert ended(child)


def test_one_that_is_slow_because_it_works_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Ticker.members

    def slow(*words: Any) -> Any:
        end = time.process_time() + 0.6
        while time.process_time() < end:
            pass
        return real(*words)

    monkeypatch.setattr(standing, "PATIENCE_S", 0.2)
    monkeypatch.setattr(Ticker, "members", slow)
    child = Standing(Nursery())
    assert child.answer(ASK) is not None
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert child.answer(ASK) is None
    assert time.monotonic() - began < 2.0
    assert ended(child)


def test_pidfds_leave_most_descriptors_to_the_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as ends:
        children = [subprocess.Popen(["sleep", "300"]) for _ in range(20)]
        for one in children:
            ends.callback(one.wait)
            ends.callback(one.kill)
        members = {one.pid: found for one in children if (found := processes.list_all().get(one.pid))}
        assert len(members) == 20
        monkeypatch.setattr(resource, "getrlimit", lambda _: (40, 4096))
        held = Deaths()
        held.hold(members)
        held.hold(members)
        assert len(held._held) == 40 // deaths._SHARE
        monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        held.hold(members)
        assert len(held._held) == 20
        for fd in held._held:
            os.close(fd)


def test_without_descriptors_nobody_is_said_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "open", 0)
    with pytest.raises(OSError, match="no more of them"):
        processes.stat_of("/proc", os.getpid())
    monkeypatch.undo()
    assert processes.stat_of("/proc", 1 << 22) is None


def test_file_systems_that_cannot_be_asked_leave_neither_pipes_nor_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = descriptors()
    with monkeypatch.context() as patch:
        failing(patch, "fork", 1)
        with pytest.raises(OSError, match="no more of them"):
            mounts.dead([("0:0", str(tmp_path)), ("0:1", str(tmp_path)), ("0:2", str(tmp_path))])
    assert descriptors() == before
    assert not [one for one in processes.list_all().values() if one.ppid == os.getpid() and "hd-mnt" in one.comm]
