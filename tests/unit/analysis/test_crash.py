"""How a launch ended: order, signals, the OOM killer, tracebacks, last lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis.crash import SIGNALS, how, signal_of
from hangdoc.analysis.tracebacks import Tracebacks
from hangdoc.engines import load
from hangdoc.model.sample import Cgroup, Ended, KernelLine

from .world import BOOT, DETOK, FACTS, ROOT, TP0, TP1, World, look

PROFILE = load.profiles()["sglang"]
TRACE = (
    "[2026-01-01 10:00:00 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "scheduler.py", line 1, in run\n'
    "    work()\n"
    "ValueError: no such dtype\n"
)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "ended; how could not be seen"),
        (0, "ended with status 0"),
        (7 << 8, "ended with status 7"),
        (9, "was killed by signal 9 (SIGKILL)"),
        (11 | 0x80, "was killed by signal 11 (SIGSEGV)"),
        (34, "was killed by signal 34"),
    ],
)
def test_how(status: int | None, words: str) -> None:
    assert how(status) == words


@given(st.integers(0, 255), st.sampled_from(sorted(SIGNALS)), st.booleans())
def test_a_wait_status_is_a_status_or_a_signal(code: int, number: int, core: bool) -> None:
    assert signal_of(code << 8) is None
    assert how(code << 8).endswith(str(code))
    assert signal_of(number | (0x80 if core else 0)) == number


def _end(world: World, diagnosis: object, second: int, ends: dict[int, tuple[float, int]]) -> object:
    """Members end at given seconds with given wait statuses; one sample tells of all."""
    starts = {pid: world.processes[pid].start for pid in ends}
    for pid in ends:
        del world.processes[pid]
    ended = [Ended(pid, starts[pid], BOOT + at, status) for pid, (at, status) in ends.items()]
    sample = replace(world.sample(float(second)), ended=sorted(ended, key=lambda one: one.at))
    diagnosis.add(sample)  # type: ignore[attr-defined]
    return diagnosis


def _dead(ends: dict[int, tuple[float, int]], log: str = "") -> tuple[list[int], object]:
    world = World()
    world.log = "[2026-01-01 10:00:00 TP0] Load weight begin.\n"
    diagnosis = look(world, 3, lambda _, second: log if second == 2 else "")
    _end(world, diagnosis, 3, ends)
    report = diagnosis.report("1")
    assert report.verdict == "crashed"
    return [one.pid for one in report.culprits], report


def test_the_first_to_end_is_named_although_the_launcher_clears_up() -> None:
    culprits, report = _dead({TP1: (2.1, 9), ROOT: (2.9, 9), DETOK: (2.9, 9), TP0: (2.95, 9)})
    assert culprits == [TP1]
    assert [row.pid for row in report.crash.ended] == [TP1, ROOT, DETOK, TP0]  # type: ignore[attr-defined]
    assert report.culprits[0].detail == "it was killed by signal 9 (SIGKILL)"  # type: ignore[attr-defined]


def test_when_all_end_at_once_the_writer_of_the_first_traceback_is_named() -> None:
    culprits, report = _dead({TP0: (2.90, 9), TP1: (2.91, 9), DETOK: (2.92, 9), ROOT: (2.93, 9)}, TRACE)
    assert culprits == [TP1]
    crash = report.crash  # type: ignore[attr-defined]
    assert (crash.traceback.rank, crash.traceback.exception) == ("TP1", "ValueError: no such dtype")
    assert [line.rank for line in crash.last_lines if line.role == "scheduler"] == ["TP0", "TP1"]


@pytest.mark.parametrize(
    "exception",
    [
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading.",
        "RuntimeError: [/pytorch/third_party/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:2077",
    ],
)
def test_a_traceback_about_another_one_does_not_name_its_writer(exception: str) -> None:
    """A rank was killed, and its launcher ended the others within an eighth of a second (seen in a real SGLang)."""
    trace = TRACE.replace("ValueError: no such dtype", exception)
    culprits, _ = _dead({TP0: (2.40, 9), DETOK: (2.48, 9), ROOT: (2.52, 9), TP1: (2.53, 9)}, trace)
    assert culprits == [TP0]


def test_a_lone_death_weighs_more_than_a_traceback_that_follows() -> None:
    culprits, _ = _dead({TP0: (2.1, 11), TP1: (2.9, 9), DETOK: (2.9, 9), ROOT: (2.9, 9)}, TRACE)
    assert culprits == [TP0]


def test_the_oom_killer_is_told_by_counter_and_kernel_log() -> None:
    world = World()
    world.facts = replace(FACTS, cgroups={"/x": Cgroup(oom_kills=1)})
    diagnosis = look(world, 3)
    ours, other = (KernelLine(1.0, "oom", f"Killed process {pid} (python)", pid) for pid in (TP1, 999))
    world.facts = replace(FACTS, cgroups={"/x": Cgroup(oom_kills=2)}, kernel_log=(other, ours))
    _end(world, diagnosis, 3, {TP1: (2.5, 9)})
    report = diagnosis.report("1")
    assert report.crash is not None
    assert report.crash.oom == [f"kernel log: {ours.text}", "cgroup /x counted 1 OOM kill since the look began"]
    assert any("OOM kill" in reason for reason in report.reasons)


def test_an_old_oom_kill_explains_nothing() -> None:
    world = World()
    world.facts = replace(FACTS, cgroups={"/x": Cgroup(oom_kills=3)})
    diagnosis = look(world, 3)
    _end(world, diagnosis, 3, {TP1: (2.5, 9)})
    report = diagnosis.report("1")
    assert report.crash is not None
    assert report.crash.oom == []


@given(st.lists(st.integers(1, 7), max_size=6))
def test_a_traceback_read_in_pieces_is_the_one_read_whole(cuts: list[int]) -> None:
    lines = ["before", *TRACE.splitlines(), "after", *TRACE.replace("TP1", "TP0").splitlines(), "end"]
    whole = Tracebacks()
    whole.read(lines, PROFILE)
    pieces, rest = Tracebacks(), lines
    for cut in cuts:
        pieces.read(rest[:cut], PROFILE)
        rest = rest[cut:]
    pieces.read(rest, PROFILE)
    assert whole.first is not None
    assert pieces.first is not None
    assert (pieces.first.exception, pieces.text) == (whole.first.exception, whole.text)
    assert pieces.first.exception == "ValueError: no such dtype"
    assert (pieces.count, whole.count) == (2, 2)


def test_a_traceback_without_an_end_is_still_told() -> None:
    found = Tracebacks()
    found.read(TRACE.splitlines()[:2], PROFILE)
    assert found.first is not None
    assert len(found.text) == 2


def test_of_zombies_found_at_the_first_look_nobody_knows_who_was_first() -> None:
    world = World()
    for pid in (TP0, TP1):
        world.bend(pid, state="Z", threads=None, stacks=None, exit_code=1 << 8)
    report = look(world, 2).report("1")
    assert {one.pid for one in report.culprits} == {TP0, TP1}
    assert report.crash is not None
    assert [row.ago_s for row in report.crash.ended] == [None, None]
