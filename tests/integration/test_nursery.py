"""The pool of disposable children, where the queue of tasks or a child fails."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from hangdoc.agent import disposable, isolate
from hangdoc.agent.disposable import Emit
from hangdoc.agent.isolate import Nursery

_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ from Python 3.10 on


def _tells(number: int) -> Callable[[Emit], None]:
    return lambda emit: emit(number)


def test_a_child_that_ends_before_it_names_its_task_costs_that_task_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    life, lives = disposable.work, iter([True])

    def short(tasks: Any, queue: int, *rest: Any) -> None:
        os.read(queue, disposable.NUMBER)
        os.kill(os.getpid(), signal.SIGKILL)

    def fork() -> int:
        monkeypatch.setattr(isolate, "work", short if next(lives, False) else life)
        return real()

    real = os.fork
    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(isolate, "work", life)
    outcomes = Nursery().run_all({number: _tells(number) for number in range(10)}, time.monotonic() + 10)
    assert [(one.ended, one.detail) for one in outcomes.values()] == [("failed", "it ended early"), *[("done", "")] * 9]


def test_children_that_cannot_begin_are_a_failure_and_not_a_turn_that_never_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_room(_: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(disposable, "seal", no_room)
    nursery = Nursery()
    began = time.monotonic()
    outcomes = nursery.run_all({number: _tells(number) for number in range(10)}, began + 10)
    assert {(one.ended, one.detail) for one in outcomes.values()} == {("failed", "it ended early")}
    assert nursery.started >= 10  # one for each task; a slow machine gets more of them at a time
    assert time.monotonic() - began < 5


def test_a_child_that_cannot_be_ended_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "_REAP_S", 5.0)
    nursery, sleeper = Nursery(), subprocess.Popen(["sleep", "60"])
    try:
        nursery.unreaped[sleeper.pid] = None  # stands for a child that SIGKILL does not end
        began = time.monotonic()
        assert nursery.run_all({0: _tells(0)}, began + 10)[0].parts == [0]
        assert time.monotonic() - began < 4
        assert set(nursery.unreaped) == {sleeper.pid}
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_task_of_which_it_cannot_be_told_whether_it_lasts_costs_no_other() -> None:
    def lasts(key: int) -> bool:
        raise ValueError(key)

    nursery = Nursery(sign=lambda: None)
    outcomes = nursery.run_all({number: _tells(number) for number in range(3)}, time.monotonic() + 10, lasts)
    assert [one.parts for one in outcomes.values()] == [[0], [1], [2]]
    assert nursery.started > 0


def test_a_queue_longer_than_a_pipe_is_done_beside_a_task_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def smallest(flags: int) -> tuple[int, int]:  # what a user with many pipes gets: pipe(7), pipe-user-pages-soft
        reading, writing = real(flags)
        fcntl.fcntl(writing, _F_SETPIPE_SZ, 4096)
        return reading, writing

    real = os.pipe2
    monkeypatch.setattr(os, "pipe2", smallest)
    tasks = {**{number: _tells(number) for number in range(6000)}, 3: lambda _: time.sleep(60)}
    outcomes = Nursery().run_all(tasks, time.monotonic() + 3)
    assert [number for number, one in outcomes.items() if one.ended != "done"] == [3]
    assert outcomes[5999].parts == [5999]


@pytest.mark.parametrize("parts", [1, 200])
def test_tasks_that_take_their_time_hold_up_nobody_however_much_they_say(parts: int) -> None:
    def slow(emit: Emit) -> None:
        for _ in range(parts):
            time.sleep(0.03)
            emit(0)

    nursery = Nursery()
    tasks = {**dict.fromkeys(range(20), slow), **{number: _tells(number) for number in range(20, 200)}}
    outcomes = nursery.run_all(tasks, time.monotonic() + 0.55)  # one after the other they take 0.6 s at least
    assert {one.ended for number, one in outcomes.items() if number >= 20} == {"done"}
    assert {one.ended for number, one in outcomes.items() if number < 20} == {"done" if parts == 1 else "timed-out"}
