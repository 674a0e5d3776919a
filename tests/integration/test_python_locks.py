"""Holders of Python locks and of the GIL, in real processes of every Python that is installed here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pythons import WITH_GIL, WITH_LOCKS
from targets import eventually, running

from hangdoc.model.sample import FutexWait, Gil, Thread
from hangdoc.probes import processes, threads, waits

PROGRAM = Path(__file__).parent / "waiting.py"
pytestmark = pytest.mark.skipif(not WITH_LOCKS, reason="no Python 3.11 to 3.13 here")


def asleep(pid: int, tid: int) -> Thread | None:
    one = threads.read("/proc", pid, None, []).get(tid)
    return one if one is not None and one.futex is not None and one.state == "S" else None


def settled(pid: int, tid: int) -> FutexWait:
    """What a thread waits for once the last of its own work is over: two looks in a row in the same place."""

    def look() -> FutexWait | None:
        first, again = asleep(pid, tid), asleep(pid, tid)
        return again.futex if first is not None and first == again else None

    return eventually(look)


def owned(pid: int, tid: int) -> FutexWait:
    """What a thread waits for once a holder is claimed."""

    def look() -> FutexWait | None:
        one = asleep(pid, tid)
        return one.futex if one is not None and one.futex is not None and one.futex.owner is not None else None

    return eventually(look)


@pytest.mark.parametrize("python", WITH_LOCKS)
def test_both_holders_of_a_cycle_of_two_locks_are_named(python: str) -> None:
    with running([python, PROGRAM, "abba"]) as (pid, tids):
        for waiter, holder in (("a", "b"), ("b", "a")):
            futex = owned(pid, tids[waiter])
            assert (futex.kind, futex.owner) == ("python-lock", tids[holder])


@pytest.mark.parametrize("python", WITH_LOCKS)
@pytest.mark.parametrize("mode", ["self", "self-frame"])
def test_a_lock_taken_twice_is_held_by_its_own_waiter(python: str, mode: str) -> None:
    with running([python, PROGRAM, mode]) as (pid, tids):
        futex = owned(pid, tids["holder"])
        assert (futex.kind, futex.owner) == ("python-lock", tids["holder"])


@pytest.mark.parametrize("python", WITH_LOCKS)
@pytest.mark.parametrize("mode", ["holder", "nested"])
def test_a_holder_that_does_something_else_is_named(python: str, mode: str) -> None:
    with running([python, PROGRAM, mode]) as (pid, tids):
        futex = owned(pid, tids["waiter"])
        assert (futex.kind, futex.owner) == ("python-lock", tids["holder"])
        assert settled(pid, tids["holder"]).owner is None


@pytest.mark.parametrize("python", WITH_LOCKS)
@pytest.mark.parametrize("mode", ["rlock", "condition-lock"])
def test_an_rlock_names_its_owner_itself(python: str, mode: str) -> None:
    with running([python, PROGRAM, mode]) as (pid, tids):
        futex = owned(pid, tids["waiter"])
        assert (futex.kind, futex.owner) == ("python-rlock", tids["main"])


@pytest.mark.parametrize("python", WITH_LOCKS)
@pytest.mark.parametrize("mode", ["acquire", "left", "method", "condition", "event", "queue", "semaphore"])
def test_nothing_is_claimed_where_no_with_says_so(python: str, mode: str) -> None:
    with running([python, PROGRAM, mode]) as (pid, tids):
        futex = settled(pid, tids["waiter"])
        assert (futex.kind, futex.owner, futex.owner_raw) == ("python-lock", None, None)


@pytest.mark.parametrize("python", WITH_LOCKS)
@pytest.mark.parametrize(
    ("mode", "kind", "raw"), [("forked", "python-lock", None), ("forked-rlock", "python-rlock", 0)]
)
def test_a_python_lock_inherited_through_fork_has_no_owner(python: str, mode: str, kind: str, raw: int | None) -> None:
    with running([python, PROGRAM, mode]) as (_, tids):
        futex = settled(tids["child"], tids["child"])
        assert (futex.kind, futex.owner, futex.owner_raw) == (kind, None, raw)


def test_an_owner_that_a_later_look_finds_is_told_though_its_waiter_never_ran() -> None:
    with running([WITH_LOCKS[0], PROGRAM, "holder"]) as (pid, tids):
        owned(pid, tids["waiter"])
        first = threads.read("/proc", pid, None, [])
        again = threads.read("/proc", pid, first, [])
        assert again[tids["waiter"]] is first[tids["waiter"]]


@pytest.mark.parametrize("python", WITH_LOCKS)
def test_holders_are_mapped_out_of_a_pid_namespace(python: str) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("making a pid namespace needs root and unshare")
    with running(["unshare", "--pid", "--fork", "--kill-child", python, PROGRAM, "abba"]) as (outer, tids):
        pid = eventually(lambda: next((p.pid for p in processes.list_all().values() if p.ppid == outer), None))
        inner = {one.nstid: tid for tid, one in threads.read("/proc", pid, None, []).items()}
        futex = owned(pid, inner[tids["a"]])
        assert (futex.owner, futex.owner_raw) == (inner[tids["b"]], tids["b"])


@pytest.mark.parametrize("python", WITH_LOCKS)
def test_a_lock_that_goes_from_hand_to_hand_never_seems_to_wait_for_itself(python: str) -> None:
    """Between the look at the threads and that at the lock its waiter may have become its holder."""
    claims = 0
    with running([python, PROGRAM, "churn"]) as (pid, tids):
        for _ in range(100):
            for tid, one in threads.read("/proc", pid, None, []).items():
                if one.futex is not None and one.futex.owner is not None:
                    claims += 1
                    assert one.futex.owner != tid
                    assert one.futex.owner in tids.values()
    assert claims  # it is no hiding in None


def test_when_no_thread_ran_nothing_is_read_again() -> None:
    with running([WITH_LOCKS[0], PROGRAM, "holder"]) as (pid, tids):
        owned(pid, tids["waiter"])
        eventually(lambda: all(one.state == "S" for one in threads.table("/proc", pid, None, []).values()))
        first = threads.read("/proc", pid, None, [])
        table = threads.table("/proc", pid, first, [])
        assert waits.read("/proc", pid, table, first, []) == waits.Waits(first)


@pytest.mark.parametrize("python", WITH_GIL)
def test_the_holder_of_the_gil_is_named_while_it_sleeps_in_native_code(python: str) -> None:
    with running([python, PROGRAM, "gil"]) as (pid, tids):

        def look() -> Gil | None:
            return waits.read("/proc", pid, threads.table("/proc", pid, None, []), None, []).gil

        gil = eventually(look)
        others = set(threads.table("/proc", pid, None, [])) - {tids["waiter"]}
        assert gil.waiters == (tids["waiter"],)
        assert {gil.holder} == others


def test_a_gil_that_nobody_waits_for_has_no_holder() -> None:
    with running([WITH_LOCKS[0], PROGRAM, "event"]) as (pid, tids):
        settled(pid, tids["waiter"])
        assert waits.read("/proc", pid, threads.table("/proc", pid, None, []), None, []).gil is None
