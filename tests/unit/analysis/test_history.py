"""Folding samples: what is kept, since when, and what counts as movement."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hangdoc.analysis import floors
from hangdoc.analysis.history import History
from hangdoc.analysis.tracks import Tick, merge, moved_channels
from hangdoc.model.launch import Launch, Member
from hangdoc.model.sample import Fd, FileLock, Io, Process, Ring, Sample, Stack, Thread

MEMBER = Member(100, 5.0, "scheduler", title="sglang::scheduler_TP0")
LAUNCH = Launch("box", 100, "sglang", {100: MEMBER})
BASE = Process(100, 1, 5.0, "S", "python", num_threads=1)


def sample(at: float, process: Process | None, *probes: str) -> Sample:
    """A sample of one process, or of none."""
    return Sample("box", at, at, at, probes or ("processes", "threads"), {100: process} if process else {})


def folded(*samples: Sample) -> History:
    """A history of these samples."""
    history = History()
    for one in samples:
        history.add(one, LAUNCH)
    return history


def blocked(**changes: object) -> Process:
    """The process with its main thread blocked in one call."""
    thread = Thread(100, "S", syscall=202, args=(1, 2), sp=7, pc=8, slices=10)
    return replace(BASE, threads={100: replace(thread, **changes)})  # type: ignore[arg-type]


def test_a_fact_that_was_not_asked_again_is_kept() -> None:
    """The environment is read once; later samples do not carry it."""
    history = folded(sample(1, replace(BASE, env={"RANK": "0"})), sample(2, replace(BASE, state="R")))
    process = history.tracks[100].process
    assert (process.env, process.state) == ({"RANK": "0"}, "R")


def test_a_reused_pid_is_another_process() -> None:
    """The start time tells; nothing of the old one is carried over, and the member is missed."""
    history = folded(sample(1, replace(BASE, env={"A": "1"})), sample(2, replace(BASE, start=9.0)))
    assert history.tracks[100].gone == 2
    assert history.tracks[100].process.start == 5.0


def test_a_member_that_is_missing_is_gone_only_where_processes_were_asked() -> None:
    """A sample of stacks alone says nothing about who lives."""
    assert folded(sample(1, BASE), sample(2, None, "packages")).tracks[100].gone is None
    assert folded(sample(1, BASE), sample(2, None)).tracks[100].gone == 2


def test_the_same_wait_with_wake_ups_is_one_place() -> None:
    """A thread that woke and went back to the same place has not moved, but it has run."""
    history = folded(sample(1, blocked()), sample(2, blocked(slices=11)), sample(3, blocked(slices=12)))
    known = history.tracks[100].threads[100]
    assert (known.in_place_since, known.not_run_since) == (1, 3)


def test_a_main_thread_is_where_it_is_since_it_last_ran() -> None:
    """The processes are looked at each second, their threads seldom: the switches tell since when it sleeps."""
    ticks = [sample(at, replace(BASE, switches=count), "processes") for at, count in ((1, 3), (2, 4), (3, 4))]
    history = folded(*ticks, sample(4, replace(blocked(), switches=4)))
    known = history.tracks[100].threads[100]
    assert (known.in_place_since, known.not_run_since) == (2, 2)
    without = folded(*(sample(at, BASE, "processes") for at in (1, 2, 3)), sample(4, blocked()))
    assert without.tracks[100].threads[100].in_place_since == 4


def test_outputs_alone_do_not_hide_what_was_seen_of_them_before() -> None:
    pipe = Fd(1, "pipe", "pipe:[7]", 7, unread=65536, capacity=65536)
    old = replace(BASE, fds={1: pipe, 5: Fd(5, "socket", "socket:[9]", 9)})
    again = merge(old, replace(BASE, fds={1: Fd(1, "pipe", "pipe:[7]", 7)}))
    assert again.fds == old.fds
    other = Fd(1, "file", "/log", 8)
    assert merge(old, replace(BASE, fds={1: other})).fds == {1: other, 5: old.fds[5]}  # type: ignore[index]


def test_a_look_at_some_descriptors_keeps_what_only_others_have_open() -> None:
    """A watch reads those of whoever comes to rest: the lock that another member waits for is as it was (seen in a real vLLM)."""
    lock = FileLock(7, "fe:00", "FLOCK", "WRITE", "0 EOF", "/cache/x.lock", (999,), (100,), 999)
    ring = Ring("psm_1", "vllm", 10, 1, (10,), (100, 101))
    fds = {1: Fd(1, "pipe", "pipe:[1]", 1), 5: Fd(5, "file", "/cache/x.lock", 7)}
    waits = replace(sample(1, replace(BASE, fds=fds), "fds"), file_locks=[lock], rings=[ring])
    history = folded(waits, sample(2, replace(BASE, fds={1: fds[1]}), "fds"), sample(3, BASE, "fds"))
    assert (history.file_locks, history.rings) == ([lock], [ring])
    history.add(sample(4, replace(BASE, fds=fds), "fds"), LAUNCH)
    assert (history.file_locks, history.rings) == ([], [])
    mine = replace(lock, holders=(100,), waiters=())
    history.add(replace(sample(5, replace(BASE, fds=fds), "fds"), file_locks=[mine]), LAUNCH)
    history.add(replace(sample(6, BASE, "fds"), file_locks=[lock]), LAUNCH)
    assert history.file_locks == [lock]


def test_who_fell_asleep_between_two_looks_has_not_run_since() -> None:
    """The look that first sees another place is later than the sleep, which the switches tell: one sleep is no loop."""
    at_work = replace(blocked(slices=3), switches=3)
    ticks = [sample(at, replace(BASE, switches=9), "processes") for at in (2, 3)]
    asleep = [sample(at, replace(blocked(pc=9, slices=9), switches=9)) for at in (4, 5, 6)]
    known = folded(sample(1, at_work), *ticks, *asleep).tracks[100].threads[100]
    assert (known.in_place_since, known.not_run_since) == (2, 2)


@pytest.mark.parametrize(("running", "since"), [(1, 1), (2, 5)])
def test_a_loop_that_is_caught_running_once_is_where_it_was(running: int, since: int) -> None:
    """Seen in a real SGLang: a loop of short sleeps was told as one sleep whenever the look before had found it awake."""
    asleep = [blocked(syscall=230, args=(1, 0, 9), slices=n) for n in range(9)]
    awake = [blocked(state="R", syscall=None, sp=None, pc=None, args=(), slices=n) for n in range(9)]
    seen = [asleep[1], asleep[2], *(awake[3 + n] for n in range(running))]
    seen += [asleep[n] for n in range(len(seen) + 1, 8)]
    known = folded(*(sample(at + 1, one) for at, one in enumerate(seen))).tracks[100].threads[100]
    assert (known.in_place_since, known.not_run_since) == (since, 7)


def test_another_call_is_another_place() -> None:
    """The clock starts again when the call site changes."""
    history = folded(sample(1, blocked()), sample(2, blocked(pc=9, slices=11)))
    assert history.tracks[100].threads[100].in_place_since == 2


def test_another_descriptor_is_another_place_and_another_array_for_poll_is_not() -> None:
    """Python's `multiprocessing.connection.wait` makes its array of descriptors anew for each poll (seen in a real SGLang)."""
    poll = [blocked(syscall=7, args=(at, 1, 5000), slices=at) for at in (0x7F189C213220, 0x7F189C2131E0)]
    assert folded(sample(1, poll[0]), sample(2, poll[1])).tracks[100].threads[100].in_place_since == 1
    read = [blocked(syscall=0, args=(fd, 0x7F189C213220, 4096), slices=fd) for fd in (3, 4)]
    assert folded(sample(1, read[0]), sample(2, read[1])).tracks[100].threads[100].in_place_since == 2


def test_denied_threads_are_told_apart_by_wait_channel() -> None:
    """With READ access only there is no system call; the channel still tells a move."""
    one = blocked(syscall=None, sp=None, pc=None, wchan="futex_do_wait")
    other = blocked(syscall=None, sp=None, pc=None, wchan="pipe_read")
    assert folded(sample(1, one), sample(2, one)).tracks[100].threads[100].in_place_since == 1
    assert folded(sample(1, one), sample(2, other)).tracks[100].threads[100].in_place_since == 2


TICK = Tick(0.0, 0.0, 0, 0, 1 << 30, 0, 0, 0)


def test_an_eventfd_loop_is_no_reading() -> None:
    """A thousand reads of 8 bytes a second move `rchar`, but they are wake-ups."""
    assert moved_channels(TICK, structs.replace(TICK, at=1.0, rchar=16_000, syscr=2_000)) == []


def test_large_reads_are_reading() -> None:
    """Weights read through system calls move `rchar` by large pieces."""
    assert moved_channels(TICK, structs.replace(TICK, at=1.0, rchar=64 << 20, syscr=64)) == ["reads"]


def test_storage_memory_and_faults_count_above_their_floors() -> None:
    """Each channel by itself."""
    assert moved_channels(TICK, structs.replace(TICK, at=1.0, read_bytes=1 << 20)) == ["storage"]
    assert moved_channels(TICK, structs.replace(TICK, at=1.0, rss=(1 << 30) + (2 << 20))) == ["memory"]
    assert moved_channels(TICK, structs.replace(TICK, at=1.0, faults=5_000)) == ["faults"]
    assert moved_channels(TICK, structs.replace(TICK, at=1.0, major=50)) == ["major-faults"]


@given(
    st.floats(0.1, 30),
    st.integers(0, floors.MEMORY),
    st.integers(0, 8),
    st.integers(0, 3_000),
)
def test_below_the_floors_nothing_moves(seconds: float, memory: int, faults: int, wakes: int) -> None:
    """Whatever a hung launch still does never counts, over any interval."""
    after = structs.replace(
        TICK,
        at=seconds,
        cpu=seconds,
        rss=(1 << 30) + memory,
        faults=int(faults * seconds),
        rchar=int(8 * wakes * seconds),
        syscr=int(wakes * seconds) + 1,
    )
    assert moved_channels(TICK, after) == []


def test_io_that_is_denied_is_no_zero() -> None:
    """Where `io` may not be read there is no channel, and none that stands still."""
    assert (
        moved_channels(
            structs.replace(TICK, read_bytes=None, rchar=None, syscr=None),
            structs.replace(TICK, at=1.0, read_bytes=9 << 20),
        )
        == []
    )


def test_merging_takes_the_newer_value() -> None:
    """A newer look at the same fact replaces the older."""
    old, new = replace(BASE, io=Io(1, 1, 1, 1, 1, 1), rss=5), replace(BASE, io=Io(2, 2, 2, 2, 2, 2))
    assert merge(old, new).io == Io(2, 2, 2, 2, 2, 2)
    assert merge(old, new).rss == 5


def test_an_old_stack_stands_while_its_thread_is_blocked_in_the_same_place() -> None:
    """A watch reads the stack of a blocked thread once a minute; it is forgotten once the thread has been elsewhere."""
    seen = replace(blocked(), stacks=[Stack(100, "MainThread")])
    looks = [sample(1, seen), *(sample(float(at), blocked()) for at in range(2, 60, 4))]
    assert [one.tid for one in folded(*looks).tracks[100].last_stacks] == [100]
    moved = [*looks, sample(60, blocked(pc=99, slices=11))]
    assert folded(*moved).tracks[100].last_stacks == ()
