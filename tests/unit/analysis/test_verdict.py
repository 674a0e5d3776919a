"""Verdict, culprit and mechanism of a launch of two ranks, bent in each way that hangdoc knows; each with a near miss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hangdoc.analysis.judge import Judgement
from hangdoc.model.sample import Cgroup, Fd, FutexWait, Health, HostFacts, Socket, Stack, Thread, Unseen

from .world import (
    BARRIER,
    BOOT,
    DETOKENIZER,
    FACTS,
    HOOK,
    INIT,
    LOAD,
    ROOT,
    SITE,
    TP0,
    TP1,
    World,
    look,
    pipe,
    stack,
    waiting,
)


def judged(world: World, seconds: int = 16, move: Any = None) -> Judgement:
    """The last word on a world."""
    return look(world, seconds, move).judgement(ended=True)


def named(found: Judgement) -> tuple[str, list[int], str]:
    """Verdict, culprits, first mechanism."""
    return (
        found.verdict,
        [one.member.pid for one in found.culprits],
        found.culprits[0].mechanism if found.culprits else "",
    )


def call(number: int, *args: int, **changes: Any) -> Thread:
    """The main thread of TP1 blocked in a system call (x86-64)."""
    return waiting(TP1, syscall=number, args=(*args, 0, 0, 0, 0, 0, 0)[:6], wchan="x", **changes)


def futex(owner: int | None, kind: str = "mutex") -> Thread:
    """The main thread of TP1 on a futex."""
    return call(202, 5, 0x80, 2, futex=FutexWait(5, kind, 2, owner))


HOOKED = (HOOK, *INIT)  # foreign code on a known road: neither a wait nor idle


@pytest.mark.parametrize(
    ("mechanism", "bend"),
    [
        ("sleep", {"thread": call(230, 1, 1, deadline=9_999.0)}),
        ("fifo-open", {"thread": call(257, 3, 4, path="/tmp/f") , "wchan": "wait_for_partner"}),
        ("file-lock", {"thread": call(73, 9, 2), "fds": {9: Fd(9, "file", "/cache/x.lock", 4)}}),
        ("pipe-read", {"thread": call(0, 4, 4), "fds": {4: pipe(4)}}),
        ("pipe-write", {"thread": call(1, 4, 4), "fds": {4: pipe(4)}}),
        ("terminal-read", {"thread": call(0, 0, 4), "fds": {0: Fd(0, "terminal", "/dev/pts/1")}}),
        ("socket-recv", {"thread": call(45, 5), "fds": {5: Fd(5, "socket", "socket:[6]", 6)}}),
        ("socket-connect", {"thread": call(42, 5), "fds": {5: Fd(5, "socket", "socket:[6]", 6)}}),
        ("socket-accept", {"thread": call(288, 5), "fds": {5: Fd(5, "socket", "socket:[6]", 6)}}),
        ("child-wait", {"thread": call(61, 7)}),
        ("driver-call", {"thread": call(16, 8), "fds": {8: Fd(8, "device", "/dev/nvidia-uvm")}}),
        ("uninterruptible", {"thread": call(58, state="D"), "state": "D"}),
        ("disk-read", {"thread": replace(call(0, 3, state="D"), wchan="folio_wait_bit_common"), "state": "D"}),
        ("lock-wait", {"thread": futex(None)}),
        ("gil-held", {"thread": call(230, 1, 1), "gil": True}),
        ("traced", {"tracer": 999, "state": "t"}),
    ],
)  # fmt: skip
def test_a_rank_in_a_plain_call_is_suspected_and_nobody_else(mechanism: str, bend: dict[str, Any]) -> None:
    """TP1 sits in foreign code in one call; TP0 waits for it in a barrier and is no culprit."""
    world = World()
    wchan = bend.pop("wchan", None)
    if wchan:
        bend["thread"] = replace(bend["thread"], wchan=wchan)
    world.bend(TP1, HOOKED, **bend)
    assert named(judged(world)) == ("suspect", [TP1], mechanism)


def test_a_sleep_whose_deadline_moves_is_a_loop() -> None:
    """The same place, another deadline at each look."""
    world = World()

    def move(world: World, second: int) -> None:
        world.bend(TP1, HOOKED, thread=call(230, 1, 1, deadline=2_000.0 + second, slices=5 + second))

    assert named(judged(world, move=move)) == ("suspect", [TP1], "sleep-loop")


@pytest.mark.parametrize("slept", [13, 14])
def test_a_loop_that_the_last_look_finds_awake_is_one_still(slept: int) -> None:
    """It polls twenty times a second; a second look in a row that finds it in no call says that it left its loop."""
    world = World()

    def move(world: World, second: int) -> None:
        thread = call(230, 1, 1, deadline=2_000.0 + second, slices=5 + second)
        awake = waiting(TP1, state="R", syscall=None, args=(), sp=None, pc=None, wchan=None, slices=5 + second)
        world.bend(TP1, HOOKED, thread=thread if second <= slept else awake)

    mechanism = named(judged(world, move=move))[2]
    assert (mechanism == "sleep-loop") == (slept == 14)


def spin(world: World, second: int, frames: Any) -> None:
    """TP1 burns a whole core in these frames."""
    world.bend(
        TP1, frames, thread=waiting(TP1, state="R", syscall=None, slices=second, sp=None, pc=None), utime=float(second)
    )


def test_cpu_in_one_place_is_a_busy_loop() -> None:
    """A core at 100 % in one function is no progress and no work."""
    assert named(judged(World(), move=lambda world, second: spin(world, second, HOOKED))) == (
        "suspect",
        [TP1],
        "busy-loop",
    )


def test_cpu_over_many_functions_is_work() -> None:
    """The same core over a range of functions is work."""

    def move(world: World, second: int) -> None:
        spin(world, second, ((f"leaf{second}", "/home/me/a.py"), (f"mid{second}", "/home/me/a.py"), *HOOKED))

    assert judged(World(), move=move).verdict == "progressing"


def test_cpu_without_stacks_is_undecided_and_says_what_is_missing() -> None:
    """CPU time alone is never progress, and never a hang either."""

    def move(world: World, second: int) -> None:
        spin(world, second, HOOKED)
        world.bend(TP1, stacks=None)

    found = judged(World(), move=move)
    assert found.verdict == "undecided"
    assert "stacks" in found.missing[0]


@pytest.mark.parametrize(("age", "moving"), [(0.5, True), (300.0, None)])
def test_a_rank_that_has_just_been_started_moves(age: float, moving: bool | None) -> None:
    """The first look at it tells nothing else, the second does. One that started long ago, and is only now found, may hang."""

    world = World()
    rank = replace(world.processes.pop(TP1), start=BOOT + 5 - age, threads=None, stacks=None)

    def move(world: World, second: int) -> None:
        if second == 5:
            world.processes[TP1] = rank

    found = look(world, 6, move)
    assert next(one.moving for one in found.pictures() if one.member.pid == TP1) is moving
    assert found.judgement().verdict == "progressing"
    found.add(world.sample(6.0))
    assert next(one.moving for one in found.pictures() if one.member.pid == TP1) is False


def test_a_stopped_rank_is_a_certain_hang_after_five_seconds() -> None:
    """Also while its sibling goes on."""

    def move(world: World, second: int) -> None:
        world.bend(TP1, HOOKED, state="T", thread=waiting(TP1, state="T"))
        world.bend(TP0, rss=(1 << 30) + second * (8 << 20))

    found = judged(World(), 7, move)
    assert (*named(found), found.confidence) == ("hung", [TP1], "stopped", "certain")
    assert judged(World(), 3, move).verdict != "hung"


def test_a_definite_fact_holds_the_look_open() -> None:
    """Three seconds are too short for a hang, and `pending` says that more looks would tell."""
    world = World()
    world.bend(TP1, HOOKED, state="T")
    assert judged(world, 3).pending


def test_a_frozen_cgroup_is_a_certain_hang() -> None:
    """docker pause."""
    world = World()
    world.facts = replace(FACTS, cgroups={"/x": Cgroup(frozen=True)})
    found = judged(world, 7)
    assert (found.verdict, found.confidence, found.culprits[0].mechanism) == ("hung", "certain", "frozen")


def test_a_mutex_that_its_holder_waits_for_is_a_certain_hang() -> None:
    """Self-lock in the main thread."""
    world = World()
    world.bend(TP1, HOOKED, thread=futex(TP1))
    found = judged(world, 7)
    assert (*named(found), found.confidence) == ("hung", [TP1], "mutex-self", "certain")


def test_two_threads_in_a_circle_are_a_certain_hang() -> None:
    """AB-BA."""
    world = World()
    other = waiting(5000, syscall=202, futex=FutexWait(6, "mutex", 2, TP1))
    world.bend(TP1, HOOKED, thread=futex(5000), others={5000: other})
    found = judged(world, 7)
    assert (*named(found), found.confidence) == ("hung", [TP1], "lock-cycle", "certain")


def test_a_lock_whose_holder_does_something_else_is_no_circle() -> None:
    """The near miss: the holder sleeps, and may let go."""
    world = World()
    world.bend(TP1, HOOKED, thread=futex(5000), others={5000: waiting(5000)})
    assert named(judged(world)) == ("suspect", [TP1], "lock-wait")


@pytest.mark.parametrize("inode", [77, 78])
def test_output_into_a_full_pipe_is_a_certain_hang(inode: int) -> None:
    """Blocked in a write to what fd 1 is; a pipe to somebody else is no definite fact."""
    world = World()
    world.bend(TP1, HOOKED, thread=call(1, 2, 4), fds={1: pipe(1, 77), 2: pipe(2, inode)})
    world.bend(TP1, HOOKED, thread=call(1, 9, 4), fds={1: pipe(1, 77), 2: pipe(2, 77), 9: pipe(9, inode)})
    found = judged(world, 7)
    assert (found.verdict == "hung") is (inode == 77)


def test_a_slow_reader_of_the_output_is_no_certain_hang() -> None:
    """The writer runs between two looks and is in the next write, at the same place."""
    world = World()
    world.bend(TP1, HOOKED, fds={1: pipe(1, 77)})

    def write(world: World, second: int) -> None:
        world.bend(TP1, thread=call(1, 1, 4, slices=5 + second))

    found = look(world, 16, write).judgement(ended=True)
    assert (found.verdict, found.confidence) == ("suspect", "hint")


def test_a_circle_in_which_somebody_gives_up_is_no_certain_hang() -> None:
    """One of the two waits with a time-out: then it may let the other go on."""
    world = World()
    other = waiting(5000, syscall=202, futex=FutexWait(6, "mutex", 2, TP1), deadline=5_000.0)
    world.bend(TP1, HOOKED, thread=futex(5000), others={5000: other})
    assert named(judged(world)) == ("suspect", [TP1], "lock-cycle")


def test_all_ranks_in_one_collective_are_the_operation_itself() -> None:
    """Nobody is missing from the call: all of them are named, with the collective."""
    world = World()
    world.bend(TP1, BARRIER)
    assert named(judged(world)) == ("suspect", [TP0, TP1], "collective")


def test_a_rank_in_a_call_that_its_idle_sibling_left_is_the_culprit() -> None:
    """TP0 waits in a barrier, TP1 has finished and waits for requests by design."""
    world = World()
    world.bend(TP1, (("Scheduler.event_loop_normal", f"{SITE}/sglang/srt/managers/scheduler.py"),))
    assert named(judged(world)) == ("suspect", [TP0], "collective")


def test_foreign_code_below_a_wait_is_where_the_thread_is() -> None:
    """A hook that sleeps below recv_requests is not idle by design."""
    world = World()
    frames = (HOOK, ("recv_requests", f"{SITE}/sglang/srt/managers/scheduler.py"), *INIT[1:])
    world.bend(TP1, frames, thread=call(230, 1, 1, deadline=9_999.0))
    assert named(judged(world)) == ("suspect", [TP1], "sleep")


def test_new_memory_is_progress() -> None:
    """Resident memory of the rank that is behind grows."""

    def move(world: World, second: int) -> None:
        world.bend(TP1, LOAD, rss=(1 << 30) + second * (64 << 20))

    found = judged(World(), 4, move)
    assert found.verdict == "progressing"
    assert "memory" in found.reasons[0]


def test_movement_of_a_sibling_clears_nobody() -> None:
    """TP0 loads, TP1 sits still in foreign code at the same phase."""

    def move(world: World, second: int) -> None:
        world.bend(TP0, LOAD, rss=(1 << 30) + second * (64 << 20))
        world.bend(TP1, (HOOK, *LOAD), thread=call(230, 1, 1))

    assert named(judged(World(), move=move)) == ("suspect", [TP1], "sleep")


def test_a_new_line_of_the_member_behind_is_progress_and_a_repeated_one_is_not() -> None:
    """A template counts once; "still waiting" never."""

    def talks(line: str) -> Any:
        def move(_: World, second: int) -> str:
            return f"[2023-11-14 22:13:{second:02} TP1] {line.format(second) if second else 'x'}\n"

        return move

    assert judged(World(), 4, talks("{} new things of kind " + "abcdefgh"[3])).verdict == "progressing"
    assert judged(World(), 16, talks("x")).verdict == "suspect"
    assert judged(World(), 16, talks("still waiting for others, {} s")).verdict == "suspect"


def test_ready_needs_the_health_path() -> None:
    """A listening port and the ready line are not enough; 200 on the port of the launch is."""
    world = World()
    world.sockets = [Socket(5, "tcp", "LISTEN", "127.0.0.1:8000")]
    world.health = [Health(ROOT, 8000, "/health", 503)]
    assert judged(world).verdict == "suspect"
    world.health = [Health(ROOT, 8000, "/health", 200)]
    assert judged(world, 2).verdict == "ready"
    world.health = [Health(ROOT, 8001, "/health", 200)]
    assert judged(world, 2).verdict != "ready"


def test_said_ready_but_silent_for_half_a_minute_is_hung() -> None:
    """Phase ready."""
    world = World()
    world.log = "[2023-11-14 22:12:00] The server is fired up and ready to roll!\n"
    world.health = [Health(ROOT, 8000, "/health", None, "no answer in 2.0 s")]
    found = judged(world, 40)
    assert (found.verdict, found.phase) == ("hung", "ready")


def test_a_dead_rank_is_a_crash_with_its_signal() -> None:
    """A zombie that was killed; the launcher lives on."""
    world = World()
    world.bend(TP1, state="Z", exit_code=9, threads=None, stacks=None, cmdline=())
    found = judged(world, 2)
    assert named(found) == ("crashed", [TP1], "dead")
    assert "signal 9" in found.reasons[0]


def test_a_rank_that_vanished_is_a_crash() -> None:
    """Its parent collected it."""

    def move(world: World, second: int) -> None:
        if second == 2:
            del world.processes[TP1]

    assert named(judged(World(), 4, move)) == ("crashed", [TP1], "dead")


def test_a_helper_that_ends_is_no_crash() -> None:
    """A compiler that has done its work."""

    def move(world: World, second: int) -> None:
        if second == 0:
            world.processes[300] = replace(
                world.processes[TP1], pid=300, ppid=TP1, cmdline=("/usr/bin/ptxas", "x"), comm="ptxas"
            )
        if second == 2:
            del world.processes[300]

    assert judged(World(), 4, move).verdict != "crashed"


def test_a_sibling_that_passed_long_ago_makes_it_overdue() -> None:
    """TP0 finished its weights 100 s ago, TP1 has not: hung, likely."""
    world = World()
    # The wall clock of the look is 2023-11-14 22:13:20 UTC.
    world.log = (
        "[2023-11-14 22:11:00 TP0] Load weight begin. avail mem=1 GB\n"
        "[2023-11-14 22:11:00 TP1] Load weight begin. avail mem=1 GB\n"
        "[2023-11-14 22:11:02 TP0] Load weight end. elapsed=2 s\n"
    )
    world.bend(TP1, (HOOK, *LOAD), thread=call(230, 1, 1))
    found = judged(world)
    assert (*named(found), found.confidence, found.phase) == ("hung", [TP1], "sleep", "likely", "weight-load")


def test_an_unknown_verdict_names_what_is_missing() -> None:
    """A single look proves nothing."""
    found = judged(World(), 1)
    assert found.verdict == "undecided"
    assert found.missing


def test_denied_everything_but_read_still_names_the_phase() -> None:
    """Without system calls and stacks the log and the wait channels carry phase and stillness."""
    world = World()
    world.log = "".join(f"[2023-11-14 22:13:00 TP{rank}] Load weight begin. avail mem=1 GB\n" for rank in (0, 1))
    world.unseen = [Unseen("stacks", "denied", "ptrace: Operation not permitted", TP1)]
    for pid in world.processes:
        world.bend(
            pid, stacks=None, thread=waiting(pid, syscall=None, args=(), sp=None, pc=None, wchan="futex_do_wait")
        )
    found = judged(world)
    assert (found.verdict, found.phase) == ("suspect", "weight-load")


def test_the_warm_up_thread_of_the_launcher_is_the_thread_of_interest() -> None:
    """Its main thread serves HTTP; the warm-up request waits for the scheduler, in which TP1 sleeps."""
    world = World()
    loop = (
        ("Runner.run", f"{SITE[:-14]}/asyncio/runners.py"),
        ("launch_server", f"{SITE}/sglang/srt/entrypoints/http_server.py"),
    )
    warm = (
        ("SocketIO.readinto", f"{SITE[:-14]}/socket.py"),
        ("post", f"{SITE}/requests/api.py"),
        ("_execute_server_warmup", f"{SITE}/sglang/srt/entrypoints/http_server.py"),
        ("_wait_and_warmup", f"{SITE}/sglang/srt/entrypoints/http_server.py"),
    )
    warmer = Stack(777, "Thread-1 (_wait_and_warmup)", False, False, stack(777, warm).frames)
    world.bend(ROOT, stacks=[stack(ROOT, loop), warmer], threads={ROOT: waiting(ROOT), 777: waiting(777)})
    batch = (
        HOOK,
        ("Scheduler.run_batch", f"{SITE}/sglang/srt/managers/scheduler.py"),
        ("Scheduler.event_loop_normal", f"{SITE}/sglang/srt/managers/scheduler.py"),
    )
    world.bend(TP1, batch, thread=call(230, 1, 1))
    found = judged(world)
    assert (*named(found), found.phase) == ("suspect", [TP1], "sleep", "warmup")


def test_facts_and_detokenizer_do_not_hide_the_rest() -> None:
    """A detokenizer that waits by design is never behind."""
    world = World()
    world.bend(TP1, HOOKED, thread=call(230, 1, 1))
    world.facts = HostFacts(name="box", arch="x86_64")
    world.bend(103, DETOKENIZER)
    assert named(judged(world))[1] == [TP1]


def test_a_detokenizer_that_has_just_moved_is_behind_nobody_whose_steps_are_known() -> None:
    """No line and no stack tells where it is; a rank that stands is not hidden by its last allocation."""
    world = World()
    world.bend(TP1, HOOKED, thread=call(230, 1, 1))
    world.bend(103, stacks=None)

    def allocates(world: World, second: int) -> None:
        world.bend(103, rss=(1 << 30) + min(second, 10) * (8 << 20))

    found = judged(world, move=allocates)
    assert named(found)[:2] == ("suspect", [TP1])


def test_a_launch_of_which_nothing_can_be_read_is_undecided_not_suspect() -> None:
    """Another user sees that its processes sleep, which is what a good server does, too."""
    world = World()
    for pid in list(world.processes):
        thread = waiting(pid, syscall=None, args=(), sp=None, pc=None, wchan=None)
        world.bend(pid, stacks=None, fds=None, thread=thread)
    judgement = look(world).judgement(ended=True)
    assert judgement.verdict == "undecided"
    assert not judgement.culprits
    assert "could be read" in judgement.missing[0]


def test_a_main_thread_that_ended_is_no_dead_process() -> None:
    """After pthread_exit in its main thread a process shows as a zombie while its other threads live."""
    world = World()
    main = waiting(TP1, state="Z", syscall=-1, args=(), wchan=None)
    world.bend(TP1, thread=main, others={TP1 + 1000: waiting(TP1 + 1000)}, state="Z", num_threads=2, stacks=None)
    assert look(world).judgement(ended=True).verdict == "suspect"
    world.bend(TP1, num_threads=1)
    assert look(world).judgement(ended=True).verdict == "crashed"


def test_a_port_that_somebody_else_holds_says_nothing_about_the_launch() -> None:
    """An older server still answers on the port: the new launch is not ready, and the report says who holds the port."""
    world = World()
    for pid in list(world.processes):
        world.bend(pid, fds={1: Fd(1, "file", "/log")}, net_ns=5)
    world.sockets = [Socket(4711, "tcp", "LISTEN", "127.0.0.1:8000", net_ns=5)]
    world.health = [Health(ROOT, 8000, "/health", 200)]
    diagnosis = look(world)
    assert diagnosis.judgement(ended=True).verdict == "suspect"
    assert [(row.port, row.state) for row in diagnosis.report("1").ports] == [
        (8000, "taken by a process outside the launch")
    ]
    world.bend(ROOT, fds={1: Fd(1, "file", "/log"), 9: Fd(9, "socket", "socket:[4711]", 4711)})
    assert look(world).judgement(ended=True).verdict == "ready"


def test_a_port_that_answers_listens_though_the_sockets_were_looked_at_before() -> None:
    world = World()
    assert [(row.port, row.state) for row in look(world).report("1").ports] == [(8000, "not listening")]
    world.health = [Health(ROOT, 8000, "/health", 200)]
    assert [(row.port, row.state) for row in look(world).report("1").ports] == [(8000, "LISTEN")]


RUNS = (
    ("_PollLikeSelector.select", f"{SITE[:-14]}/selectors.py"),
    ("Popen._communicate", f"{SITE[:-14]}/subprocess.py"),
    *INIT,
)


def _with_child(busy: bool, frames: Any) -> Judgement:
    """TP1 runs a process of its own, which touches memory for the first time, or not."""

    def move(world: World, second: int) -> None:
        world.bend(TP1, frames)
        child = replace(
            world.processes[TP1], pid=300, ppid=TP1, cmdline=("/usr/bin/find", "x"), comm="find", stacks=None
        )
        world.processes[300] = replace(child, threads={}, minflt=second * 5_000 if busy else 0)

    return judged(World(), move=move)


def test_the_work_of_a_child_that_a_rank_waits_for_is_its_work() -> None:
    """subprocess.run of something that works; the near miss: of something that does not, or in a wait for something else."""
    assert _with_child(busy=True, frames=RUNS).verdict == "progressing"
    assert _with_child(busy=False, frames=RUNS).verdict == "suspect"
    assert _with_child(busy=True, frames=HOOKED).verdict == "suspect"
