"""Healthy starts are silent for up to 40 s in any phase: no such silence is called a hang, however tight the bound is."""

from __future__ import annotations

from dataclasses import replace
from time import gmtime, strftime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.analysis.nearest import hold
from hangdoc.analysis.quantiles import overdue_after
from hangdoc.engines.load import profiles
from hangdoc.model.baseline import Baseline, Configuration, PhaseTimes, Run
from hangdoc.model.sample import Io

from .world import BOOT, HOOK, INIT, ROOT, TP1, WALL, World, waiting

HERE = Configuration("sglang", None, "m", {"tensor-parallel-size": "2"})
IO = Io(0, 0, 0, 0, 0, 0)
MANY = st.lists(st.floats(0.0, 20.0), min_size=5, max_size=12)


def begun(ago: float) -> World:
    """Both ranks began to load so long before the look; rank 1 is in foreign code and does not move."""
    world = World()
    at = strftime("%Y-%m-%d %H:%M:%S", gmtime(WALL - ago))
    world.log = "".join(f"[{at} TP{rank}] Load weight begin. avail mem=1.5 GB\n" for rank in (0, 1))
    world.mtime = WALL - ago
    world.bend(TP1, (HOOK, *INIT), io=IO)
    for pid in world.processes:
        world.bend(pid, start=BOOT - ago - 20)
    return world


def held(load: list[float]) -> Diagnosis:
    rows = (PhaseTimes("weight-load", (20.0,) * len(load), tuple(load), None, None, {"scheduler TP1": tuple(load)}),)
    good = Baseline("good", HERE, runs=tuple(Run(ready_s=50.0) for _ in load), phases=rows)
    diagnosis = Diagnosis(ROOT)
    diagnosis.beside = hold(good, HERE, profiles()["sglang"])
    return diagnosis


def verdicts(world: World, load: list[float], *, moves_for: int, seconds: int) -> list[str]:
    """What is said in each second of a watch: the rank reads its weights for a while, then nothing of it moves any more.
    Only the seconds in which something can come of it are judged."""
    diagnosis = held(load)
    said: list[str] = []
    for second in range(seconds):
        world.bend(TP1, io=replace(IO, read_bytes=min(second, moves_for) * (50 << 20)))
        diagnosis.add(world.sample(float(second)))
        judged = second in (moves_for + 5, moves_for + 15) or second >= moves_for + 38
        said.append(diagnosis.judgement().verdict if judged else "")
    return said


@settings(max_examples=6, deadline=None)
@given(MANY, st.integers(1, 60), st.floats(0.0, 300.0))
def test_a_silence_of_forty_seconds_is_no_hang_in_any_phase(load: list[float], moves_for: int, ago: float) -> None:
    """Also where the phase has lasted for so long that only a sign of life is missing to call it one."""
    said = verdicts(begun(ago), load, moves_for=moves_for, seconds=moves_for + 41)
    assert "hung" not in said
    assert said[-1] == "suspect"


@settings(max_examples=6, deadline=None)
@given(MANY, st.integers(1, 30))
def test_what_stays_silent_is_called_within_the_bound_and_a_quarter_of_a_minute(
    load: list[float], moves_for: int
) -> None:
    bound = overdue_after(sorted(load))
    latest = int(max(bound + 15.0, moves_for + 45.0)) + 2
    said = verdicts(begun(0.0), load, moves_for=moves_for, seconds=latest + 1)
    assert said[latest] == "hung"
    assert said.index("hung") >= moves_for + 40


@pytest.mark.parametrize(("ago", "verdict"), [(25.0, "suspect"), (200.0, "hung")])
def test_the_log_tells_of_the_silence_before_the_look(ago: float, verdict: str) -> None:
    diagnosis, world = held([0.0] * 5), begun(ago)
    for second in range(16):
        diagnosis.add(world.sample(float(second)))
    report = diagnosis.report("0", ended=True)
    assert (report.verdict, report.confidence) == (verdict, "likely" if verdict == "hung" else "hint")


def test_a_line_that_came_meanwhile_ends_the_silence() -> None:
    world, diagnosis = begun(200.0), held([0.0] * 5)
    at = strftime("%Y-%m-%d %H:%M:%S", gmtime(WALL - 20))
    world.log += f"[{at} TP1] Using model weights format ['*.safetensors']\n"
    for second in range(16):
        diagnosis.add(world.sample(float(second)))
    report = diagnosis.report("0", ended=True)
    assert report.verdict == "suspect"
    assert "silent for 35 s; healthy starts are for up to 40 s" in report.reasons


def test_a_definite_fact_waits_for_no_silence() -> None:
    world = begun(0.0)
    world.bend(TP1, state="T", thread=replace(waiting(TP1), state="T"))
    assert "hung" in verdicts(world, [0.0] * 5, moves_for=0, seconds=9)


HTTP = (("HTTPResponse._read_status", "/usr/lib/python3.11/http/client.py"), HOOK, *INIT)
QUEUE = (("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py"), HOOK, *INIT)


@pytest.mark.parametrize(
    ("frames", "since", "verdict"), [(HTTP, 0, "suspect"), (HTTP, 8, "undecided"), (QUEUE, 0, "undecided")]
)
def test_one_wait_that_leads_out_of_the_launch_was_for_nobodys_sake(frames: Any, since: int, verdict: str) -> None:
    """A further phase of the others, four seconds ago, does not excuse it. The near misses: another wait since then, and one
    that may be for another member."""
    world, diagnosis = begun(0.0), Diagnosis(ROOT)
    for second in range(20):
        sp = 1 if second >= since else 2
        world.bend(
            TP1, frames, thread=waiting(TP1, syscall=202 if frames is QUEUE else 45, args=(12, 0, 0, 0, 0, 0), sp=sp)
        )
        at = strftime("%Y-%m-%d %H:%M:%S", gmtime(WALL + second))
        new = f"[{at} TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16\n" if second == 15 else ""
        diagnosis.add(world.sample(float(second), new))
    assert diagnosis.judgement().verdict == verdict
