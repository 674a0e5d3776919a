"""Holders of locks: in the same process, in another, nowhere; the GIL; files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hangdoc.model.report import Report
from hangdoc.model.sample import Fd, FileLock, FutexWait, Gil

from .world import HOOK, INIT, TP0, TP1, World, look, waiting

FOREIGN = (HOOK, *INIT)


def on(kind: str, pid: int = TP1, **fields: Any) -> Any:
    """The main thread of a process on a futex of some kind."""
    return waiting(pid, syscall=202, args=(5, 0x80, 2, 0, 0, 0), wchan="x", futex=FutexWait(5, kind, 2, **fields))


def seen(world: World, seconds: int = 16) -> Report:
    """The report on a world."""
    return look(world, seconds).report("0")


@pytest.mark.parametrize(
    ("kind", "word"), [("mutex", "mutex-self"), ("python-lock", "lock-self"), ("python-rlock", "lock-self")]
)
def test_a_lock_that_its_own_thread_holds(kind: str, word: str) -> None:
    """Certain after 5 s; Python's locks have a word of their own."""
    world = World()
    world.bend(TP1, FOREIGN, thread=on(kind, owner=TP1))
    report = seen(world, 7)
    assert (report.verdict, report.confidence) == ("hung", "certain")
    assert [(one.pid, one.mechanism) for one in report.culprits] == [(TP1, word)]


def test_a_circle_of_two_python_locks() -> None:
    """AB-BA by `with`: the edges lead from thread to thread, both through python-lock."""
    world = World()
    other = waiting(500, syscall=202, futex=FutexWait(9, "python-lock", 0, TP1))
    world.bend(TP1, FOREIGN, thread=on("python-lock", owner=500), others={500: other})
    report = seen(world, 7)
    assert [(one.pid, one.mechanism) for one in report.culprits] == [(TP1, "lock-cycle")]
    edges = [
        (one.source.tid, one.via, one.target and one.target[0].tid) for one in report.waits if one.source.pid == TP1
    ]
    assert edges == [(TP1, "python-lock", 500), (500, "python-lock", TP1)]


def test_a_lock_inherited_through_fork_can_be_released_by_nobody() -> None:
    """The holder is no thread of the process: certain, and the edge leads to nobody."""
    world = World()
    world.bend(TP1, FOREIGN, thread=on("mutex", owner_raw=77_777))
    report = seen(world, 7)
    assert (report.verdict, report.confidence) == ("hung", "certain")
    assert [(one.mechanism, one.object) for one in report.culprits] == [("lock-wait", "nobody")]
    assert [(one.via, one.target) for one in report.waits if one.source.pid == TP1] == [("mutex", None)]


def test_a_semaphore_with_a_number_beside_it_has_no_holder() -> None:
    """The near miss: kinds that nobody holds never name anyone."""
    world = World()
    world.bend(TP1, FOREIGN, thread=on("semaphore", owner_raw=77_777))
    report = seen(world)
    assert report.verdict == "suspect"
    assert [one for one in report.waits if one.source.pid == TP1] == []


@pytest.mark.parametrize("maps_it", [True, False])
def test_a_shared_mutex_is_held_by_another_process(maps_it: bool) -> None:
    """Found where the other process maps the same memory and has that thread; otherwise nothing is claimed."""
    world = World()
    thread = on("mutex", shared=True, object="0:1:42:64", owner_raw=TP0)
    world.bend(TP1, FOREIGN, thread=thread, shared=("0:1:42",))
    world.bend(
        TP0, FOREIGN, thread=waiting(TP0, syscall=230, args=(1, 1, 0, 0, 0, 0)), shared=("0:1:42",) if maps_it else ()
    )
    report = seen(world)
    edges = [(one.via, [end.pid for end in one.target or ()]) for one in report.waits if one.source.pid == TP1]
    assert edges == ([("mutex", [TP0])] if maps_it else [])
    assert report.culprits[0].pid == (TP0 if maps_it else report.culprits[0].pid)


def test_the_gil_has_a_holder_and_a_waiter() -> None:
    """TP1's main thread waits for the GIL that thread 500 keeps."""
    world = World()
    sleeper = waiting(500, syscall=230, args=(1, 1, 0, 0, 0, 0))
    world.bend(TP1, FOREIGN, thread=on("condition"), others={500: sleeper})
    world.processes[TP1] = replace(world.processes[TP1], gil=Gil(500, (TP1,)))
    report = seen(world)
    assert [(one.pid, one.mechanism, one.object) for one in report.culprits] == [(TP1, "gil-wait", "thread 500")]
    assert [(one.via, one.target and one.target[0].tid) for one in report.waits if one.source.pid == TP1] == [
        ("gil", 500)
    ]


def test_a_file_lock_names_its_holder_outside() -> None:
    """flock: the culprit's object is the path and the process that has it."""
    world = World()
    thread = waiting(TP1, syscall=73, args=(9, 2, 0, 0, 0, 0), wchan="locks_lock_inode_wait")
    world.bend(TP1, FOREIGN, thread=thread, fds={9: Fd(9, "file", "/cache/x.lock", 4)})
    world.file_locks = [FileLock(4, "fe:0", "FLOCK", "WRITE", path="/cache/x.lock", holders=(4242,), waiters=(TP1,))]
    report = seen(world)
    assert [(one.mechanism, one.object) for one in report.culprits] == [
        ("file-lock", "/cache/x.lock, held by process 4242")
    ]
    assert [(one.via, one.target and one.target[0].pid) for one in report.waits if one.source.pid == TP1] == [
        ("flock", 4242)
    ]
