"""Threads and lock owners of real processes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from targets import compiled, eventually, running

from hangdoc.model.sample import Thread, Unseen
from hangdoc.probes import kernelstacks, processes, threads, waits
from hangdoc.probes.syscalls import NAME, NUMBER


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("waiting"))


def blocked(pid: int, tid: int, unseen: list[Unseen] | None = None) -> Thread:
    """The thread once it sleeps in a futex."""

    def look() -> Thread | None:
        one = threads.read("/proc", pid, None, [] if unseen is None else unseen).get(tid)
        return one if one is not None and one.futex is not None and one.state == "S" else None

    return eventually(look)


def in_call(pid: int, tid: int, *calls: str) -> Thread:
    """The thread once it sleeps in one of these system calls."""

    def look() -> Thread | None:
        one = threads.read("/proc", pid, None, [])[tid]
        return one if one.state == "S" and NAME.get(-1 if one.syscall is None else one.syscall) in calls else None

    return eventually(look)


def test_a_cycle_of_two_mutexes_names_both_holders(program: Path) -> None:
    with running([program, "abba"]) as (pid, tids):
        for waiter, holder in (("a", "b"), ("b", "a")):
            futex = blocked(pid, tids[waiter]).futex
            assert futex is not None
            assert (futex.kind, futex.owner, futex.word) == ("mutex", tids[holder], 2)


def test_a_mutex_locked_twice_is_held_by_its_own_waiter(program: Path) -> None:
    with running([program, "self"]) as (pid, tids):
        futex = blocked(pid, tids["waiter"]).futex
        assert futex is not None
        assert futex.owner == tids["waiter"]


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("recursive", "mutex"),
        ("errorcheck", "mutex"),
        ("robust", "robust-mutex"),
        ("pi", "pi-mutex"),
        ("timed", "mutex"),
        ("data", "mutex"),
    ],
)
def test_mutexes_of_every_kind_name_their_holder(program: Path, mode: str, kind: str) -> None:
    with running([program, mode]) as (pid, tids):
        futex = blocked(pid, tids["waiter"]).futex
        assert futex is not None
        assert (futex.kind, futex.owner) == (kind, tids["main"])


def test_a_rwlock_held_by_a_writer_names_it_to_readers_and_writers(program: Path) -> None:
    with running([program, "rwlock"]) as (pid, tids):
        for waiter in ("reader", "writer"):
            futex = blocked(pid, tids[waiter]).futex
            assert futex is not None
            assert (futex.kind, futex.owner) == ("rwlock", tids["main"])


def test_join_names_the_thread_that_is_joined(program: Path) -> None:
    with running([program, "join"]) as (pid, tids):
        futex = blocked(pid, tids["waiter"]).futex
        assert futex is not None
        assert (futex.kind, futex.owner) == ("join", tids["sleeper"])


@pytest.mark.parametrize(
    ("mode", "waiter", "kind"),
    [
        ("rwlock-read", "writer", "unknown"),
        ("cond", "waiter", "condition"),
        ("sem", "waiter", "semaphore"),
        ("latch", "waiter", "unknown"),
    ],
)
def test_what_nobody_holds_has_no_owner(program: Path, mode: str, waiter: str, kind: str) -> None:
    with running([program, mode]) as (pid, tids):
        futex = blocked(pid, tids[waiter]).futex
        assert futex is not None
        assert (futex.kind, futex.owner) == (kind, None)


def test_a_lock_inherited_through_fork_has_no_owner_in_the_child(program: Path) -> None:
    with running([program, "forked"]) as (_, tids):
        futex = blocked(tids["child"], tids["child"]).futex
        assert futex is not None
        # The lock names a thread of the parent, and nobody in the child can ever release it.
        assert (futex.kind, futex.owner, futex.owner_raw) == ("mutex", None, tids["main"])


def test_a_mutex_in_shared_memory_is_the_same_object_to_both_processes(program: Path) -> None:
    with running([program, "shared"]) as (pid, tids):
        futex = blocked(tids["child"], tids["child"]).futex
        assert futex is not None
        assert futex.object is not None
        assert (futex.kind, futex.shared, futex.owner, futex.owner_raw) == ("mutex", True, None, tids["main"])
        in_call(pid, tids["waiter"], "clock_nanosleep")
        for one in (pid, tids["child"]):
            shared = waits.read("/proc", one, threads.table("/proc", one, None, []), None, []).shared
            assert shared is not None
            assert futex.object.rpartition(":")[0] in shared


def test_a_thread_that_holds_a_lock_in_its_own_process_waits_for_no_other_object(program: Path) -> None:
    with running([program, "abba"]) as (pid, tids):
        futex = blocked(pid, tids["a"]).futex
        assert futex is not None
        assert (futex.object, futex.owner_raw) == (None, tids["b"])


def test_owners_are_mapped_out_of_a_pid_namespace(program: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("making a pid namespace needs root and unshare")
    with running(["unshare", "--pid", "--fork", "--kill-child", program, "abba"]) as (outer, tids):
        pid = eventually(lambda: next((p.pid for p in processes.list_all().values() if p.ppid == outer), None))
        assert processes.list_all()[pid].nspid == (pid, 1)
        table = threads.read("/proc", pid, None, [])
        inner = {one.nstid: tid for tid, one in table.items()}
        assert set(tids.values()) <= set(inner)
        a, b = inner[tids["a"]], inner[tids["b"]]
        futex = blocked(pid, a).futex
        assert futex is not None
        assert futex.owner == b


def test_absolute_deadlines_are_read_as_monotonic_time(program: Path) -> None:
    began = time.monotonic()
    for mode, ahead in (("timed", 500), ("nap", 700)):
        with running([program, mode]) as (pid, tids):
            deadline = eventually(lambda: threads.read("/proc", pid, None, [])[tids["waiter"]].deadline)
            assert ahead - 1 <= deadline - began <= ahead + 30
            assert threads.read("/proc", pid, None, [])[tids["waiter"]].deadline == deadline


def test_descriptors_of_poll_and_select_are_read(program: Path) -> None:
    for mode, fds in (("poll", (0, 2)), ("select", (0,))):
        with running([program, mode]) as (pid, tids):
            one = in_call(pid, tids["waiter"], "poll", "select", "pselect6", "ppoll")
            assert one.poll == fds
            assert one.deadline is None  # a length, and nobody knows when it began


def test_the_path_of_a_blocked_open_is_read(program: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running([program, "open", fifo]) as (pid, tids):
        one = in_call(pid, tids["waiter"], "openat")
        assert one.path == str(fifo)


def test_a_writer_on_a_full_pipe_is_seen_in_write(program: Path) -> None:
    with running([program, "pipe"]) as (pid, tids):
        one = in_call(pid, tids["waiter"], "write")
        assert one.wchan is not None
        assert "pipe" in one.wchan


def test_a_parent_in_vfork_is_uninterruptible_and_stopping_it_leaves_a_pending_signal(
    program: Path, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running([program, "vfork", fifo]) as (pid, _):
        eventually(lambda: threads.read("/proc", pid, None, [])[pid].state == "D")
        before = threads.read("/proc", pid, None, [])
        assert not before[pid].pending_stop
        os.kill(pid, signal.SIGSTOP)
        after = threads.read("/proc", pid, before, [])[pid]
        assert (after.state, after.pending_stop) == ("D", True)
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_process_is_seen_stopped_and_stays_so(program: Path) -> None:
    with running([program, "abba"]) as (pid, tids):
        blocked(pid, tids["a"])
        before = threads.read("/proc", pid, None, [])
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: {one.state for one in threads.read("/proc", pid, before, []).values()} == {"T"})
        again = threads.read("/proc", pid, None, [])
        assert again[tids["a"]].syscall == NUMBER["futex"]
        assert again[tids["a"]].futex is not None


def test_a_thread_that_did_not_run_is_taken_over_but_its_locks_owner_is_read_again(program: Path) -> None:
    with running([program, "nap"]) as (pid, tids):
        in_call(pid, tids["waiter"], "clock_nanosleep")
        first = threads.read("/proc", pid, None, [])
        again = threads.read("/proc", pid, first, [])
        assert again[tids["waiter"]] is first[tids["waiter"]]
    with running([program, "abba"]) as (pid, tids):
        one = blocked(pid, tids["a"])
        assert one.futex is not None
        stale = replace(one, futex=replace(one.futex, owner=None))
        assert threads.read("/proc", pid, {one.tid: stale}, [])[one.tid] == one


def test_a_process_that_is_gone_is_said_to_be_gone(program: Path) -> None:
    with running([program, "sem"]) as (pid, _):
        pass
    unseen: list[Unseen] = []
    assert threads.read("/proc", pid, None, unseen) == {}
    assert [one.reason for one in unseen] == ["gone"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="kernel stacks are for root alone")
def test_kernel_functions_of_a_thread_in_state_d(program: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running([program, "vfork", fifo]) as (pid, _):
        eventually(lambda: threads.read("/proc", pid, None, [])[pid].state == "D")
        if not Path(f"/proc/{pid}/stack").exists():
            pytest.skip("this kernel shows no stacks")
        found = kernelstacks.read("/proc", pid, [])
    assert found is not None
    assert set(found) == {pid}  # the others sleep
    assert "kernel_clone" in found[pid]
    assert not any("entry_SYSCALL" in one for one in found[pid])


def test_kernel_stacks_that_may_not_be_read_are_unseen(tmp_path: Path) -> None:
    task = tmp_path / "7/task/7"
    task.mkdir(parents=True)
    (task / "stat").write_text("7 (x) D 1" + " 0" * 50)
    (task / "stack").symlink_to("/proc/self/mem/denied")  # any error that is not "gone"
    unseen: list[Unseen] = []
    assert kernelstacks.read(str(tmp_path), 7, unseen) is None
    assert [(one.probe, one.pid) for one in unseen] == [("kernel", 7)]


def test_of_a_running_thread_it_is_not_said_that_it_may_not_be_read(tmp_path: Path) -> None:
    task = tmp_path / "7/task/7"
    task.mkdir(parents=True)
    (task / "stat").write_text("7 (x) R 1" + " 0" * 50)
    (task / "stack").symlink_to("/proc/self/mem/denied")
    unseen: list[Unseen] = []
    assert kernelstacks.read(str(tmp_path), 7, unseen) == {}
    assert unseen == []
