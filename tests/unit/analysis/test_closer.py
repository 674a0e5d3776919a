"""What closer looks say in words, and that an attach is no look at movement."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis import closer
from hangdoc.model.deep import DeepStep, Glance, GlanceThread, Spot, Trace, TracedCall
from hangdoc.model.sample import Cost, Frame, Sample, Stack
from hangdoc.session import deep

from .world import BOOT, ROOT, TP0, TP1, World, look, waiting
from .world import stack as python_stack

EVENTFD = "anon_inode:[eventfd]"
HOOKED = (("hook", "/home/me/patch.py"), ("ModelRunner.load_model", "/x/sglang/srt/model_executor/model_runner.py"))
NATIVE = (Frame("pthread_mutex_lock", "/usr/lib/libc.so.6", "libc.so.6"), Frame("repack", "/opt/libk.so", "libk.so"))
WRITE = Spot(71, 1, 7, EVENTFD)
NAP, RAN = Spot(9, 230), Spot(20, ran=True)


def thread(tid: int = TP1, *spots: Spot, **fields: int) -> GlanceThread:
    return GlanceThread(tid, "python", spots, **fields)


def test_shares_of_calls_with_what_their_descriptors_are() -> None:
    glance = Glance(100, 2.0, (thread(TP1, WRITE, RAN, NAP, writes=2000, written_bytes=16000),), {7: 3})
    assert closer.glance_words(glance, TP1, "x86_64") == (
        "71 % blocked in write on an eventfd (fd 7), 20 % running, 9 % blocked in clock_nanosleep, "
        "1,000 writes a second of 8 bytes each, the counter of eventfd 7 moves (in 100 looks within 2.0 s)"
    )


def test_writes_that_move_nothing_are_told_as_failing() -> None:
    glance = Glance(100, 2.0, (thread(TP1, RAN, writes=2000, written_bytes=0),))
    assert "1,000 writes a second that move nothing or fail" in closer.glance_words(glance, TP1, "x86_64")


def test_another_thread_that_is_busy_is_named() -> None:
    glance = Glance(100, 2.0, (thread(TP1, replace(NAP, count=100)), thread(999, RAN)))
    assert closer.glance_words(glance, TP1, "x86_64").startswith("thread 999 (python): 100 % running")


def test_an_idle_process_is_told_by_its_own_thread() -> None:
    glance = Glance(100, 2.0, (thread(TP1, replace(NAP, count=100)),))
    assert closer.glance_words(glance, TP1, "x86_64").startswith("100 % blocked in clock_nanosleep")


def test_a_loop_that_does_nothing_else() -> None:
    trace = Trace(2.0, (TracedCall(TP1, "write", 2000, 7, EVENTFD, 8),))
    said = "8-byte writes to an eventfd (fd 7), 1,000 a second; and nothing else (in 2.0 s of strace)"
    assert closer.trace_words(trace, TP1) == said


def test_failing_calls_say_with_what() -> None:
    trace = Trace(2.0, (TracedCall(TP1, "write", 2000, 7, EVENTFD, 4, "EINVAL"),))
    assert "4-byte writes to an eventfd (fd 7), 1,000 a second, all failing with EINVAL" in closer.trace_words(
        trace, TP1
    )


def test_what_is_left_out_is_counted() -> None:
    calls = tuple(TracedCall(TP1, name, 10) for name in ("poll", "futex", "ioctl", "madvise"))
    assert closer.trace_words(Trace(2.0, calls), TP1).endswith("and 10 other calls (in 2.0 s of strace)")
    assert "and nothing else" not in closer.trace_words(Trace(2.0, calls[:2], cut=True), TP1)


def test_no_call_at_all_is_said() -> None:
    assert closer.trace_words(Trace(2.0), TP1) == "no system call in 2.0 s"


def test_the_innermost_native_function_and_who_called_into_its_library() -> None:
    frames = (*NATIVE, *python_stack(TP1, HOOKED).frames, Frame("main", "/usr/bin/python3", "python3"))
    native = closer.native_frames([Stack(TP1, frames=frames)], TP1)
    assert native == NATIVE
    assert (
        closer.native_words(native)
        == "innermost native function pthread_mutex_lock (libc.so.6), called by repack (libk.so)"
    )


def test_frames_without_a_name_give_way_to_named_ones() -> None:
    assert "repack" in closer.native_words((Frame("0x7f00", "/opt/libk.so", "libk.so"), NATIVE[1]))
    assert (
        closer.native_words((Frame("0x7f00", "/opt/libk.so", "libk.so"),))
        == "innermost native function 0x7f00 (libk.so)"
    )
    assert closer.native_words(()) == ""


@given(
    st.lists(st.builds(Spot, st.integers(0, 100), st.integers(-1, 500), st.integers(0, 9), st.text(), st.booleans()))
)
def test_any_glance_has_words(spots: list[Spot]) -> None:
    assert closer.glance_words(Glance(100, 1.5, (thread(TP1, *spots),)), TP1, "x86_64")


def attached(pid: int, probe: str, at: float = BOOT + 18, **fields: object) -> Sample:
    """The sample of one step of --deep."""
    process = replace(World().processes[pid], threads=None, stacks=None, fds=None, **fields)  # type: ignore[arg-type]
    step = DeepStep(pid, probe, 0.1, 64.0, measured=True, interrupted=("thread 7: epoll_wait", "thread 8: epoll_wait"))
    return Sample(
        "box", at, at, at, (probe,), {pid: process}, deep=[step], cost=Cost(paused_ms={pid: 64.0})
    )  # fmt: skip


def spinning(world: World, second: int) -> None:
    one = waiting(TP1, state="R", syscall=None, slices=second, sp=None, pc=None)
    world.bend(TP1, HOOKED, thread=one, utime=float(second))


def test_what_deep_told_is_in_the_report_and_the_verdict_stays() -> None:
    diagnosis = look(World(), move=spinning)
    before = diagnosis.report("0")
    diagnosis.add(attached(TP1, "native", native=[Stack(TP1, frames=(*NATIVE, *python_stack(TP1, HOOKED).frames))]))
    diagnosis.add(attached(TP1, "strace", trace=Trace(2.0, (TracedCall(TP1, "write", 2000, 7, EVENTFD, 8),))))
    after = diagnosis.report("0")
    assert (after.verdict, after.phase, after.clocks) == (before.verdict, before.phase, before.clocks)
    assert [one.pid for one in after.culprits] == [TP1]
    assert "and nothing else" in after.culprits[0].detail
    assert "innermost native function pthread_mutex_lock" in after.culprits[0].detail
    assert after.cost.paused_ms == {str(TP1): 128.0}
    told = [reason for reason in after.reasons if reason not in before.reasons]
    assert any("stopped process 102 for 64 ms (measured) to read native stacks" in reason for reason in told)
    assert any("ended epoll_wait early (EINTR) in thread 7, thread 8 of process 102" in reason for reason in told)
    assert any("--deep" in step for step in before.next)
    assert not any("--deep" in step for step in after.next)


def test_native_frames_stand_on_top_of_the_merged_tree() -> None:
    diagnosis = look(World(), move=spinning)
    frames = (*NATIVE, *python_stack(TP1, HOOKED).frames, Frame("main", "/usr/bin/python3", "python3"))
    diagnosis.add(attached(TP1, "native", native=[Stack(TP1, frames=frames)]))
    lines, rows = [], diagnosis.report("0").stacks
    while rows:
        lines += [row.function for row in rows]
        rows = [child for row in rows for child in row.children]
    assert "main" not in lines
    assert lines.index("hook") < lines.index("repack") < lines.index("pthread_mutex_lock")


def test_a_new_window_opens_after_an_attach() -> None:
    """What the tool stirred up is not held against, nor for, the process: nothing before it is compared with what comes."""
    world = World()
    diagnosis = look(world, move=spinning)
    diagnosis.add(attached(TP1, "strace", trace=Trace(2.0)))
    track = diagnosis.history.tracks[TP1]
    assert len(track.ticks) > 1
    diagnosis.add(world.sample(20.0))
    after = diagnosis.history.tracks[TP1]
    assert (len(after.ticks), after.first, after.moved) == (1, BOOT + 20, {})
    assert after.process.trace == Trace(2.0)
    assert len(diagnosis.history.tracks[TP0].ticks) > 1


def test_the_plan_takes_culprits_one_of_each_group_and_straces_the_busy_one() -> None:
    diagnosis = look(World(), move=spinning)
    steps = deep.plan(diagnosis.judgement(ended=True), diagnosis.pictures())
    assert [(one.probe, one.pid) for one in steps] == [
        ("native", TP1),
        ("native", ROOT),
        ("native", TP0),
        ("strace", TP1),
    ]
    assert steps[0].announcement == (
        f"--deep: stops scheduler TP1 (pid {TP1}) for up to 2 s to read its native stacks (py-spy)"
    )


def test_nothing_is_planned_where_nothing_is_stuck() -> None:
    def move(world: World, second: int) -> None:
        world.bend(TP1, rss=(1 << 30) + second * (64 << 20))

    diagnosis = look(World(), move=move)
    judgement = diagnosis.judgement(ended=True)
    assert judgement.verdict == "progressing"
    assert deep.plan(judgement, diagnosis.pictures()) == []


def test_what_a_loop_does_comes_before_how_it_waits() -> None:
    calls = (TracedCall(TP1, "clock_nanosleep", 2000), TracedCall(TP1, "write", 1000, 7, EVENTFD, 8))
    words = closer.trace_words(Trace(2.0, calls), TP1)
    assert words.startswith(
        "8-byte writes to an eventfd (fd 7), 500 a second; clock_nanosleep, 1,000 a second; and nothing"
    )


def test_a_thread_that_is_not_as_it_was_comes_first() -> None:
    diagnosis = look(World(), move=spinning)
    sample = attached(TP1, "strace")
    changed = replace(sample.deep[0], differs=("thread 7 is stopped (state T)",), measured=False)
    diagnosis.add(replace(sample, deep=[changed]))
    reasons = diagnosis.report("0").reasons
    assert reasons[0] == "after --deep (strace) on process 102: thread 7 is stopped (state T)"
    assert any("(at most: the whole run of the tool)" in reason for reason in reasons)


def test_an_undecided_launch_shows_what_closer_looks_told() -> None:
    """CPU time without Python stacks: nothing is claimed, but what the loop does is said."""

    def move(world: World, second: int) -> None:
        spinning(world, second)
        world.bend(TP1, stacks=None)

    diagnosis = look(World(), move=move)
    judgement = diagnosis.judgement(ended=True)
    assert judgement.verdict == "undecided"
    steps = deep.plan(judgement, diagnosis.pictures())
    assert [(one.probe, one.pid) for one in steps][:1] == [("native", TP1)]
    assert ("strace", TP1) in [(one.probe, one.pid) for one in steps]
    diagnosis.add(attached(TP1, "strace", trace=Trace(2.0)))
    report = diagnosis.report("0")
    assert report.verdict == "undecided"
    assert any("no system call in 2.0 s" in reason for reason in report.reasons)
