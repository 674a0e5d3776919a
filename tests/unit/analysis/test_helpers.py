"""Members that wait for processes of their own, and members that somebody traces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .test_verdict import call, judged, named
from .world import HOOK, ROOT, TP0, TP1, World, process

POPEN = (("Popen._wait", "subprocess.py"), ("build", "flashinfer/jit/core.py"))


@pytest.mark.parametrize(("program", "verdict"), [("/usr/bin/ptxas x", "progressing"), ("/opt/bin/probe x", "suspect")])
def test_a_compiler_that_spends_cpu_is_work_of_who_waits_for_it(program: str, verdict: str) -> None:
    """One kernel takes minutes with the same memory; of another program CPU time alone says nothing."""
    world = World()
    world.bend(TP1, POPEN, thread=call(61, 300))

    def move(here: World, second: int) -> None:
        here.processes[300] = replace(process(300, TP1, program, ()), utime=1.0 * second, state="R")

    assert judged(world, 16, move).verdict == verdict


def test_a_compiler_that_does_nothing_is_no_work() -> None:
    world = World()
    world.bend(TP1, POPEN, thread=call(61, 300))
    world.processes[300] = process(300, TP1, "/usr/bin/ptxas x", ())
    assert named(judged(world)) == ("suspect", [TP1], "child-wait")


def test_who_is_followed_and_runs_is_not_held() -> None:
    """strace of a process that sleeps: it has a tracer, and its state says that nobody stopped it."""
    world = World()
    world.bend(TP1, (("hook", "site-packages/plugin/x.py"),), tracer=999, thread=call(230, 1, 1))
    assert named(judged(world))[2] == "sleep"


VLLM = "/opt/venv/bin/python /opt/venv/bin/vllm serve /models/m"
WAIT_FOR_READY = (
    ("wait", "multiprocessing/connection.py"),
    ("WorkerProc.wait_for_ready", "site-packages/vllm/v1/executor/multiproc_executor.py"),
)
SPAWNED = "/opt/venv/bin/python -c spawn_main(tracker_fd=38) --multiprocessing-fork"


@pytest.mark.parametrize(
    ("worker", "mb", "verdict"),
    [(False, 8, "progressing"), (False, 0, "suspect"), (True, 8, "suspect")],
    ids=["imports", "does nothing", "is not who is waited for"],
)
def test_a_child_that_has_no_title_yet_moves_for_who_waits_for_its_role(worker: bool, mb: int, verdict: str) -> None:
    """vLLM 0.32 on a CPU gives the one rank a worker of its own; no argument tells that it will come."""
    world = World()
    world.processes = {
        ROOT: process(ROOT, 1, VLLM, (("wait_for_engine_startup", "site-packages/vllm/v1/engine/utils.py"),)),
        TP0: process(TP0, ROOT, "VLLM::EngineCore", WAIT_FOR_READY),
    }
    if worker:
        world.processes[TP1] = process(TP1, TP0, "VLLM::Worker", (HOOK,))

    def move(here: World, second: int) -> None:
        here.processes[300] = process(300, TP0, SPAWNED, (), rss=(1 << 30) + second * (mb << 20))

    assert judged(world, 20, move).verdict == verdict
