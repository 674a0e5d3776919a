"""Edges between threads and processes, and the culprit at the end of a chain of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hangdoc.model.report import Wait
from hangdoc.model.sample import Fd, FutexWait, Socket

from .world import BARRIER, DETOK, HOOK, INIT, LOAD, ROOT, SITE, TP0, TP1, World, look, waiting

FOREIGN = (HOOK, *INIT)  # code of which no profile says anything


def call(pid: int, number: int, *args: int, **changes: Any) -> Any:
    """The main thread of a process blocked in a system call (x86-64)."""
    return waiting(pid, syscall=number, args=(*args, 0, 0, 0, 0, 0, 0)[:6], wchan="x", **changes)


def pipe_end(fd: int, inode: int, flags: int) -> dict[int, Fd]:
    """One end of a pipe: flags 0 reads, 1 writes."""
    return {fd: Fd(fd, "pipe", f"pipe:[{inode}]", inode, flags)}


def socket_end(fd: int, inode: int) -> dict[int, Fd]:
    """A socket."""
    return {fd: Fd(fd, "socket", f"socket:[{inode}]", inode, 2)}


def waits(world: World) -> list[Wait]:
    """Edges of the report."""
    return look(world).report("0").waits


def ends(found: list[Wait], pid: int) -> list[tuple[str, list[int] | None]]:
    """(via, targets) of the edges that leave a process."""
    return [
        (one.via, None if one.target is None else [end.pid for end in one.target])
        for one in found
        if one.source.pid == pid
    ]


def test_a_chain_of_four_processes_ends_in_the_one_that_sleeps() -> None:
    """launcher -pipe-> TP0 -unix-> TP1 -tcp-> detokenizer, which sleeps in foreign code; nothing else is known of them."""
    world = World()
    world.bend(ROOT, FOREIGN, thread=call(ROOT, 0, 3), fds=pipe_end(3, 50, 0))
    world.bend(TP0, FOREIGN, thread=call(TP0, 45, 4), fds={**pipe_end(5, 50, 1), **socket_end(4, 60)})
    world.bend(TP1, FOREIGN, thread=call(TP1, 45, 6), fds={**socket_end(7, 61), **socket_end(6, 70)})
    world.bend(DETOK, (HOOK,), thread=call(DETOK, 230, 1, 1, deadline=9_999.0), fds=socket_end(8, 71))
    world.sockets = [
        Socket(60, "unix", "CONNECTED", peer=61),
        Socket(61, "unix", "CONNECTED", peer=60),
        Socket(70, "tcp", "ESTABLISHED", "127.0.0.1:1", "127.0.0.1:2"),
        Socket(71, "tcp", "ESTABLISHED", "127.0.0.1:2", "127.0.0.1:1"),
    ]
    report = look(world).report("0")
    assert [(one.pid, one.mechanism) for one in report.culprits] == [(DETOK, "sleep")]
    assert ends(report.waits, ROOT) == [("pipe", [TP0])]
    assert ends(report.waits, TP0) == [("unix", [TP1])]
    assert ends(report.waits, TP1) == [("tcp", [DETOK])]
    assert ends(report.waits, DETOK) == []
    said = "launcher waits for scheduler TP0 (pipe), which waits for scheduler TP1 (unix), which waits for detokenizer (tcp)"
    assert said in report.reasons


def test_an_end_that_nobody_of_the_launch_holds_is_no_victim() -> None:
    """The near miss: the other end is a server elsewhere. The edge has no target, and TP1 itself is named."""
    world = World()
    world.bend(TP1, FOREIGN, thread=call(TP1, 45, 6), fds=socket_end(6, 70))
    world.sockets = [Socket(70, "tcp", "ESTABLISHED", "127.0.0.1:1", "10.0.0.9:443")]
    report = look(world).report("0")
    assert ends(report.waits, TP1) == [("tcp", None)]
    assert [one.pid for one in report.culprits] == [TP1]
    assert "10.0.0.9:443" in (report.culprits[0].object or "")


def test_a_pipe_to_itself_is_no_wait_for_another() -> None:
    """Both ends in one process: a thread of it should write."""
    world = World()
    world.bend(TP1, FOREIGN, thread=call(TP1, 0, 3), fds={**pipe_end(3, 50, 0), **pipe_end(4, 50, 1)})
    assert ends(waits(world), TP1) == [("pipe", None)]


@pytest.mark.parametrize("reader", [True, False])
def test_a_writer_waits_for_the_reader(reader: bool) -> None:
    """A full pipe: the edge leads to whoever has the other end."""
    world = World()
    world.bend(TP1, FOREIGN, thread=call(TP1, 1, 3), fds=pipe_end(3, 50, 1))
    if reader:
        world.bend(DETOK, fds=pipe_end(9, 50, 0))
    assert ends(waits(world), TP1) == [("pipe", [DETOK] if reader else None)]


def test_locks_are_followed_inside_a_process_to_what_their_holder_waits_for() -> None:
    """main -mutex-> thread 500 -rwlock-> thread 501 -pipe-> the detokenizer."""
    world = World()
    threads = {
        500: waiting(500, syscall=202, futex=FutexWait(6, "rwlock", 3, 501)),
        501: call(501, 0, 3),
    }
    main = call(TP1, 202, 5, futex=FutexWait(5, "mutex", 2, 500))
    world.bend(TP1, FOREIGN, thread=main, others=threads, fds=pipe_end(3, 50, 0))
    world.bend(DETOK, fds=pipe_end(9, 50, 1))
    found = [one for one in waits(world) if one.source.pid == TP1]
    assert [(one.via, one.source.tid, [(end.pid, end.tid) for end in one.target or ()]) for one in found] == [
        ("mutex", TP1, [(TP1, 500)]),
        ("rwlock", 500, [(TP1, 501)]),
        ("pipe", 501, [(DETOK, None)]),
    ]
    assert found[0].certainty == "certain"


def test_a_circle_of_locks_ends() -> None:
    """AB-BA: two edges, and no more."""
    world = World()
    other = waiting(500, syscall=202, futex=FutexWait(6, "mutex", 2, TP1))
    world.bend(TP1, FOREIGN, thread=call(TP1, 202, 5, futex=FutexWait(5, "mutex", 2, 500)), others={500: other})
    assert ends(waits(world), TP1) == [("mutex", [TP1]), ("mutex", [TP1])]


def test_a_circle_of_sockets_is_no_proof() -> None:
    """Two ranks that wait for each other over sockets: suspected, never certain."""
    world = World()
    world.bend(TP0, FOREIGN, thread=call(TP0, 45, 4), fds=socket_end(4, 60))
    world.bend(TP1, FOREIGN, thread=call(TP1, 45, 6), fds=socket_end(6, 61))
    world.sockets = [Socket(60, "unix", "CONNECTED", peer=61), Socket(61, "unix", "CONNECTED", peer=60)]
    report = look(world).report("0")
    assert (report.verdict, report.confidence) == ("suspect", "hint")
    assert ends(report.waits, TP0) == [("unix", [TP1])]
    assert ends(report.waits, TP1) == [("unix", [TP0])]


def test_a_collective_waits_for_the_ranks_that_are_not_in_it() -> None:
    """TP0 in a barrier, TP1 elsewhere: one edge to TP1; with both in it each waits for the other."""
    world = World()
    world.bend(TP1, FOREIGN, thread=call(TP1, 230, 1, 1))
    assert ends(waits(world), TP0) == [("collective", [TP1])]


def test_a_parent_waits_for_the_child_that_it_names() -> None:
    """wait4 with a pid, and without."""
    world = World()
    world.processes[300] = replace(
        world.processes[DETOK], pid=300, ppid=TP1, cmdline=("sleep", "9"), comm="sleep", stacks=None
    )
    world.processes[301] = replace(world.processes[300], pid=301)
    world.bend(TP1, FOREIGN, thread=call(TP1, 61, 301))
    assert ends(waits(world), TP1) == [("child", [301])]
    world.bend(TP1, FOREIGN, thread=call(TP1, 61, (1 << 64) - 1))
    assert ends(waits(world), TP1) == [("child", [300, 301])]


ALL_REDUCE = (("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py"), *LOAD)


def test_the_rank_that_foreign_code_put_into_another_collective_is_the_mismatch() -> None:
    """TP0 in the engine's own all_reduce, TP1 in a barrier that a hook called."""
    world = World()
    world.bend(TP0, ALL_REDUCE)
    world.bend(TP1, (BARRIER[0], HOOK, *LOAD))
    report = look(world).report("0")
    assert [(one.pid, one.mechanism) for one in report.culprits] == [(TP1, "collective-mismatch")]
    assert ends(report.waits, TP0) == [("collective", [TP1])]


def test_two_different_collectives_without_a_clue_name_both() -> None:
    """Nothing tells who is wrong."""
    world = World()
    world.bend(TP0, ALL_REDUCE)
    world.bend(TP1, BARRIER)
    found = look(world).report("0").culprits
    assert sorted((one.pid, one.mechanism) for one in found) == [
        (TP0, "collective-mismatch"),
        (TP1, "collective-mismatch"),
    ]


def test_the_odd_one_of_three_is_the_mismatch() -> None:
    """The majority is in the right call."""
    world = World()
    world.processes[104] = replace(
        world.processes[TP0], pid=104, cmdline=("sglang::scheduler_TP2",), threads={104: waiting(104)}
    )
    world.bend(104, BARRIER)
    world.bend(TP0, ALL_REDUCE)
    world.bend(TP1, BARRIER)
    assert [(one.pid, one.mechanism) for one in look(world).report("0").culprits] == [(TP0, "collective-mismatch")]


def test_the_same_collective_from_another_line_is_no_mismatch() -> None:
    """The near miss: both in all_reduce."""
    world = World()
    world.bend(TP0, ALL_REDUCE)
    world.bend(TP1, (ALL_REDUCE[0], *INIT))
    assert {one.mechanism for one in look(world).report("0").culprits} == {"collective"}
