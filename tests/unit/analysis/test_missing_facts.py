"""Facts that are taken away may leave a verdict open; they never make a launch that is well look hung or crashed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.sample import Health, Io, Process, Sample, Thread

from .world import DETOK, LOAD, ROOT, SITE, TP0, TP1, World, waiting

_SECONDS = 17
_TIME = "[2023-11-14 22:12:{:02d} TP1]"  # within the last minute before the samples
IDLE = (
    ("Scheduler.recv_requests", f"{SITE}/sglang/srt/managers/scheduler.py"),
    ("Scheduler.event_loop_normal", f"{SITE}/sglang/srt/managers/scheduler.py"),
)


def _by_log(world: World, second: int) -> str:
    return f"{_TIME.format(second)} loaded layer-{chr(97 + second)} of the model\n"


def _by_memory(world: World, second: int) -> str:
    world.bend(TP1, rss=(1 << 30) + second * (64 << 20), io=Io(second << 24, 0, second * 9, 0, second << 24, 0))
    return ""


def _by_work(world: World, second: int) -> str:
    frames = ((f"op_{second}", f"{SITE}/torch/nn.py"), (f"layer_{second % 5}", "/m.py"), *LOAD)
    world.bend(TP1, frames, thread=waiting(TP1, state="R", syscall=None, wchan="0", slices=second), utime=0.9 * second)
    return ""


def _ready(world: World, second: int) -> str:
    world.bend(TP0, IDLE)
    world.bend(TP1, IDLE)
    world.health = [Health(ROOT, 8000, "/health", 200)]
    return ""


HEALTHY: dict[str, Callable[[World, int], str]] = {
    "log": _by_log, "memory": _by_memory, "work": _by_work, "ready": _ready,
}  # fmt: skip


def _samples(kind: str) -> list[Sample]:
    world = World()
    if kind == "log":
        world.log = "[2023-11-14 22:11:00 TP1] Load weight begin.\n"
    samples = []
    for second in range(_SECONDS):
        text = HEALTHY[kind](world, second)
        samples.append(world.sample(float(second), text))
    return samples


def _defaults(kind: Any) -> dict[str, Any]:
    return {one.name: one.default for one in fields(kind)}


PROCESS_FACTS = (
    "threads", "stacks", "io", "fds", "cgroup", "cmdline", "rss", "num_threads", "exit_code", "nspid", "utime", "exe",
)  # fmt: skip
THREAD_FACTS = ("syscall", "wchan", "args", "sp", "pc", "slices", "ran_ns", "futex", "deadline")
SAMPLE_FACTS = ("sockets", "logs", "health", "host_facts")


def _without(sample: Sample, fact: str, pid: int) -> Sample:
    """The sample without one fact: of one process, or of the host."""
    if fact in SAMPLE_FACTS:
        lacking: dict[str, Any] = {fact: None if fact == "host_facts" else []}
        return replace(sample, **lacking)
    one = sample.processes[pid]
    if fact in PROCESS_FACTS:
        one = replace(one, **{fact: _defaults(Process)[fact]})
    elif one.threads:
        one = replace(one, threads={t: replace(x, **{fact: _defaults(Thread)[fact]}) for t, x in one.threads.items()})
    return replace(sample, processes={**sample.processes, pid: one})


removals = st.lists(
    st.tuples(
        st.sampled_from((*PROCESS_FACTS, *THREAD_FACTS, *SAMPLE_FACTS)),
        st.sampled_from((ROOT, TP0, TP1, DETOK)),
        st.integers(0, _SECONDS - 1),
    ),
    max_size=8,
)


def _verdict(samples: list[Sample], removed: list[tuple[str, int, int]]) -> tuple[str, str]:
    diagnosis = Diagnosis(ROOT)
    for second, sample in enumerate(samples):
        seen = sample
        for fact, pid, since in removed:
            if second >= since:
                seen = _without(seen, fact, pid)
        diagnosis.add(seen)
    judgement = diagnosis.judgement(ended=True)
    return judgement.verdict, judgement.confidence


SEEN = {kind: _samples(kind) for kind in HEALTHY}


def test_they_are_well_when_everything_is_seen() -> None:
    expected = {"log": "progressing", "memory": "progressing", "work": "progressing", "ready": "ready"}
    assert {kind: _verdict(samples, [])[0] for kind, samples in SEEN.items()} == expected


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(HEALTHY)), removals)
def test_a_fact_less_never_makes_a_healthy_launch_hung(kind: str, removed: list[tuple[str, int, int]]) -> None:
    assert _verdict(SEEN[kind], removed)[0] not in ("hung", "crashed")
