"""A start held against good ones: overdue lines and phases, and the story that hangdoc was written for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.analysis.nearest import Beside, hold, order
from hangdoc.baselines import store
from hangdoc.engines.load import profiles
from hangdoc.model.baseline import Baseline, BaselineLine, Configuration, Hardware, PhaseTimes, RoleCount, Run
from hangdoc.model.report import Report
from hangdoc.model.sample import Fd, Socket
from hangdoc.shipped import FOLDERS

from .world import BOOT, HOOK, INIT, RECV_PIPE, ROOT, SCHEDULER, TP0, TP1, WALL, World, process

HERE = Configuration("sglang", None, "m", {"tensor-parallel-size": "2"})
SGLANG = profiles()["sglang"]


def good(*runs: float, load: tuple[float, ...] = (10.0,), **changes: Any) -> Baseline:
    """Good starts that took `runs` seconds and loaded for `load` seconds."""
    row = PhaseTimes("weight-load", (20.0,) * len(runs), load, None, None, {f"scheduler TP{n}": load for n in (0, 1)})
    lines = (
        BaselineLine("Load weight begin. avail mem=#", "scheduler", (20.0,) * len(runs)),
        BaselineLine("Load weight end. elapsed=#", "scheduler", (30.0,) * len(runs)),
        BaselineLine("Memory pool end. avail mem=#", "scheduler", (45.0,) * len(runs)),
    )
    found = Baseline("good", HERE, runs=tuple(Run(ready_s=one, lines=90) for one in runs), phases=(row,), lines=lines)
    return replace(found, **changes)


def stamp(ago: float) -> str:
    """A time in the log so many seconds before the look, in the world's zone."""
    from time import gmtime, strftime

    return strftime("%Y-%m-%d %H:%M:%S", gmtime(WALL - ago))


def report(world: World, beside: Beside | None, seconds: int = 16, move: Any = None) -> Report:
    diagnosis = Diagnosis(ROOT)
    diagnosis.beside = beside
    for second in range(seconds):
        if move:
            move(world, second)
        diagnosis.add(world.sample(float(second)))
    return diagnosis.report("0", ended=True)


def loading(ago: float) -> World:
    """Both ranks began to load their weights so long ago; rank 1 hangs in foreign code and nothing moves."""
    world = World()
    world.log = "".join(f"[{stamp(ago)} TP{n}] Load weight begin. avail mem=1.5 GB\n" for n in (0, 1))
    world.bend(TP1, (HOOK, *INIT))
    for pid in world.processes:
        world.bend(pid, start=BOOT - ago - 20)
    return world


def test_still_and_overdue_by_the_baseline_is_hung() -> None:
    found = report(loading(60), hold(good(50.0), HERE, SGLANG))
    assert (found.verdict, found.confidence) == ("hung", "likely")
    assert any("took 10 s in one good start (baseline good; one run alone says little)" in one for one in found.reasons)
    assert found.phase is not None
    assert found.phase.expected_s == 70.0
    assert found.baseline is not None
    assert found.baseline.overdue_line == "Load weight end. elapsed=#"
    assert found.baseline.overdue_by_s is not None
    assert found.baseline.overdue_by_s > 40


def test_still_and_not_overdue_is_only_suspect() -> None:
    assert report(loading(20), hold(good(50.0), HERE, SGLANG)).verdict == "suspect"


def test_without_a_baseline_the_ceiling_of_the_profile_serves() -> None:
    found = report(loading(60), None)
    assert found.verdict == "suspect"
    assert found.phase is not None
    assert found.phase.basis == "ceiling of the engine's profile"


def test_a_phase_that_always_takes_long_is_not_overdue() -> None:
    assert report(loading(60), hold(good(500.0, load=(300.0,)), HERE, SGLANG)).verdict == "suspect"


def test_the_whole_start_may_be_overdue_where_the_phase_is_not_known() -> None:
    totals = good(100.0, phases=(), lines=())
    late, early = loading(60), loading(60)
    for pid in late.processes:
        late.bend(pid, start=BOOT - 300)
        early.bend(pid, start=BOOT - 100)
    assert report(late, hold(totals, HERE, SGLANG)).verdict == "hung"
    assert report(early, hold(totals, HERE, SGLANG)).verdict == "suspect"


def test_a_start_that_was_slow_before_is_not_overdue_in_a_phase_that_has_its_time_still() -> None:
    late, stuck = loading(20), loading(90)
    for pid in late.processes:
        late.bend(pid, start=BOOT - 300)
        stuck.bend(pid, start=BOOT - 300)
    assert report(late, hold(good(50.0), HERE, SGLANG)).verdict == "suspect"
    assert report(stuck, hold(good(50.0), HERE, SGLANG)).verdict == "hung"


def test_a_machine_that_was_slow_before_is_given_as_much_more_time() -> None:
    """Imports took 60 s and not 20 as in the good start: a silence of 30 s in a load that then took 10 s is no hang yet."""
    load = good(50.0).phases[0]
    imports = PhaseTimes("import", (0.0,), (20.0,), None, None, {"launcher": (20.0,)})
    beside = hold(good(50.0, phases=(imports, load)), HERE, SGLANG)

    def found(ago: float) -> Report:
        world = loading(ago)
        for pid in world.processes:
            world.bend(pid, start=BOOT - ago - 60)
        return report(world, beside)

    assert found(70).verdict == "suspect"  # 70 s would be the bound, and is 3 x 10 + 60
    late = found(80)
    assert (late.verdict, late.confidence) == ("hung", "likely")
    assert any("what is behind it took 3.0 times as long as ever then" in one for one in late.reasons)


def test_a_baseline_of_another_configuration_decides_nothing() -> None:
    for change in (
        {"model": "n"},
        {"model": "org/n"},
        {"engine": "vllm"},
        {"args": {**HERE.args, "pipeline-parallel-size": "2"}},
        {"hosts": 2},
    ):
        other = hold(good(50.0, configuration=replace(HERE, **change)), HERE, SGLANG)
        assert not other.comparable
        found = report(loading(60), other)
        assert found.verdict == "suspect"
        assert found.baseline is not None
        assert found.baseline.distance


def test_lines_that_were_passed_over_and_lines_that_are_new_are_told() -> None:
    world = loading(60)
    world.log += f"[{stamp(50)} TP0] Memory pool end. avail mem=1.5 GB\n[{stamp(49)} TP0] Something else altogether\n"
    found = report(world, hold(good(50.0), HERE, SGLANG)).baseline
    assert found is not None
    assert found.missing_lines == ["Load weight end. elapsed=#"]
    assert found.extra_lines == ["Something else altogether"]


def test_the_nearest_is_chosen_and_differences_are_told_with_what_they_mean() -> None:
    eager = good(50.0, name="eager", configuration=replace(HERE, args={**HERE.args, "disable-cuda-graph": ""}))
    other = good(50.0, name="other", configuration=replace(HERE, model="n"))
    same = good(50.0, name="same")
    held = sorted((hold(one, HERE, SGLANG) for one in (other, eager, same)), key=order)
    assert [one.baseline.name for one in held] == ["same", "eager", "other"]
    words = [one.words for one in hold(eager, HERE, SGLANG).differences]
    assert any("graph-capture is only here, by the arguments: expect a longer start" in one for one in words)


def test_fewer_cpus_stretch_the_bounds_of_a_start_on_cpus() -> None:
    many = replace(HERE, hardware=Hardware("none", 0, 8))
    few = replace(HERE, hardware=Hardware("none", 0, 2))
    assert hold(good(50.0, configuration=many), few, SGLANG).scale == 4.0
    assert hold(good(50.0, configuration=few), many, SGLANG).scale == 1.0


def test_threads_ports_and_memory_that_good_starts_never_had_are_told() -> None:
    counted = (RoleCount("scheduler", 2, (40,)), RoleCount("launcher", 1, (10,)))
    phase = replace(good(50.0).phases[0], rss=(1 << 30,))
    base = good(50.0, processes=counted, ports={"launcher": 1, "scheduler": 2}, phases=(phase,))
    world = loading(20)
    world.bend(TP1, num_threads=205)
    world.bend(ROOT, fds={5: Fd(5, "socket", "socket:[7]", 7)})
    world.sockets = [Socket(7, "tcp", "LISTEN", "127.0.0.1:8000")]
    found = report(world, hold(base, HERE, SGLANG)).baseline
    assert found is not None
    assert "threads: 205 of one scheduler now, at most 40 in good starts" in found.facts
    assert "ports: 0 that role scheduler listens on now, 2 in good starts when ready" in found.facts
    assert "memory: 4.0 GiB resident now, at most 1.0 GiB in good starts" in found.facts
    assert not any("launcher" in one for one in found.facts)


def story(age: float) -> tuple[World, Beside]:
    """What the story holds: 217 lines and 31,808 bytes that ended with the weights, eight busy schedulers, an idle launcher."""
    world = World()
    argv = "/opt/venv/bin/python -m sglang.launch_server --model-path /models/Kimi-K2.5 --tp 8 --port 8000"
    world.processes = {ROOT: process(ROOT, 1, argv, RECV_PIPE, start=BOOT - age)}
    for rank in range(8):
        pid = TP0 + rank
        world.processes[pid] = process(
            pid, ROOT, f"sglang::scheduler_TP{rank}", (HOOK, *SCHEDULER), start=BOOT - age + 20
        )
    last = "Loading safetensors checkpoint shards: 100% Completed | 64/64 [05:12<00:00,  4.88s/it]\n"
    lines = [f"a line of the start, number {number}\n" for number in range(216)]
    for rank in range(8):
        lines[100 + rank] = f"[{stamp(age - 60)} TP{rank}] Load weight begin. avail mem=93.1 GB\n"
    lines[0] = "x" * (31_808 - len(last) - sum(map(len, lines[1:])) - 1) + "\n"
    world.log = "".join(lines) + last
    assert (world.log.count("\n"), len(world.log)) == (217, 31_808)
    here = Configuration("sglang", None, "Kimi-K2.5", {"tensor-parallel-size": "8"}, Hardware("nvidia", 8))
    one = store.read(FOLDERS["baselines"] / "sglang-kimi-k2.5-8xrtx-pro-6000.yaml")
    return world, hold(one, here, SGLANG)


def busy(world: World, second: int) -> None:
    """The schedulers burn CPU in one place."""
    for pid, one in world.processes.items():
        if pid != ROOT:
            world.processes[pid] = replace(one, utime=float(second))


def told(age: float) -> Report:
    world, beside = story(age)
    diagnosis = Diagnosis(ROOT)
    diagnosis.beside = beside
    for second in range(16):
        busy(world, second)
        sample = world.sample(float(second))
        logs = [replace(one, lines=world.log.count("\n")) for one in sample.logs]
        diagnosis.add(replace(sample, logs=logs))
    return diagnosis.report("0", ended=True)


def test_the_story_after_twenty_minutes() -> None:
    found = told(1200.0)
    assert (found.verdict, found.confidence) == ("hung", "likely")
    assert any("lasted 1215 s and took 540 s in one good start" in one for one in found.reasons)
    assert found.baseline is not None
    facts = "log: 217 lines and 31,808 bytes now; in good starts 217 at the end of weight-load, 641 when ready"
    assert facts in found.baseline.facts
    assert {one.mechanism for one in found.culprits} == {"busy-loop"}
    assert ROOT not in {one.pid for one in found.culprits}


def test_the_story_after_ten_minutes_is_not_yet_a_hang() -> None:
    assert told(600.0).verdict == "suspect"
