"""Cold and warm starts, and larger checkpoints: told by what was seen, compared with their like, scaled for a stated reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangdoc.analysis.caches import COLD_READ, COMPILERS, Found
from hangdoc.analysis.configuration import configuration
from hangdoc.analysis.nearest import hold
from hangdoc.analysis.quantiles import overdue_after
from hangdoc.analysis.runs import with_caches
from hangdoc.engines.load import profiles
from hangdoc.model.baseline import Baseline
from hangdoc.model.sample import Checkpoint, Io, Partial, Storage

from .test_compare import HERE, good
from .world import BARRIER, HOOK, LOAD, ROOT, TP0, TP1, WALL, World, look, process

SGLANG = profiles()["sglang"]
BEGIN = "".join(f"[2023-11-14 22:13:20 TP{n}] Load weight begin. avail mem=1.5 GB\n" for n in (0, 1))


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (Found(read_bytes=1 << 20), "warm"),
        (Found(read_bytes=1 << 20, early=True), "unknown"),
        (Found(read_bytes=100 << 20), "unknown"),
        (Found(read_bytes=COLD_READ), "cold"),
        (Found(read_bytes=0, compiled=COMPILERS), "cold"),
        (Found(read_bytes=0, compiled=2), "warm"),
        (Found(read_bytes=0, said=frozenset({"warm"})), "warm"),
        (Found(read_bytes=0, said=frozenset({"warm", "cold"})), "cold"),
        (Found(read_bytes=0, downloaded=True), "cold"),
        (Found(), "unknown"),
    ],
)
def test_state(found: Found, state: str) -> None:
    assert found.state == state
    assert bool(found.words) == (state == "cold")


def seen(world: World, seconds: int = 3) -> str:
    for pid in world.processes:
        world.bend(pid, io=world.processes[pid].io or Io(0, 0, 0, 0, 0, 0))
    diagnosis = look(world, seconds)
    assert diagnosis.launch is not None
    return configuration(diagnosis.history, diagnosis.launch, None, diagnosis.logbook).caches


def test_a_start_whose_members_read_nothing_is_warm_once_its_imports_are_over() -> None:
    world = World()
    assert seen(world) == "unknown"
    world.log = BEGIN
    assert seen(world) == "warm"


def test_a_start_that_reads_its_libraries_from_storage_is_cold_at_once() -> None:
    world = World()
    world.bend(ROOT, io=Io(0, 0, 0, 0, COLD_READ, 0))
    assert seen(world) == "cold"


def test_counters_that_may_not_be_read_say_nothing() -> None:
    world = World()
    world.log = BEGIN
    diagnosis = look(world, 3)
    assert diagnosis.launch is not None
    assert configuration(diagnosis.history, diagnosis.launch, None, diagnosis.logbook).caches == "unknown"


def test_many_compilers_are_a_cold_start_and_inherited_ones_count() -> None:
    world = World()
    world.log = BEGIN
    for number in range(COMPILERS):
        world.processes[700 + number] = process(700 + number, TP1, "/usr/bin/cc1plus -quiet x.cpp", (HOOK,))
    assert seen(world) == "cold"


def test_a_download_is_a_cold_start() -> None:
    world = World()
    world.storage = Storage(partials=(Partial("/hub/x.incomplete", 5, 5, WALL, "org/m"),))
    assert seen(world) == "cold"


def mixed() -> Baseline:
    base = good(100.0, 300.0, 310.0, load=(10.0, 60.0, 70.0))
    runs = tuple(replace(run, caches=name) for run, name in zip(base.runs, ("warm", "cold", "cold"), strict=True))
    return replace(base, runs=runs, configuration=replace(HERE, caches="mixed"))


def test_runs_that_found_the_same_caches_are_taken() -> None:
    cold = hold(mixed(), replace(HERE, caches="cold"), SGLANG)
    assert [one.ready_s for one in cold.baseline.runs] == [300.0, 310.0]
    assert cold.baseline.phases[0].duration_s == (60.0, 70.0)
    assert cold.baseline.phases[0].dwell_s["scheduler TP0"] == (60.0, 70.0)
    assert cold.alike
    warm = hold(mixed(), replace(HERE, caches="warm"), SGLANG)
    assert [one.ready_s for one in warm.baseline.runs] == [100.0]
    assert len(hold(mixed(), HERE, SGLANG).baseline.runs) == 3
    assert with_caches(good(5.0), "cold") == good(5.0)


def test_a_cold_start_beside_warm_ones_is_said_and_its_bound_is_the_wider_one() -> None:
    warm = replace(good(*[50.0] * 5, load=(10.0,) * 5), configuration=replace(HERE, caches="warm"))
    held = hold(warm, replace(HERE, caches="cold"), SGLANG)
    words = "caches were warm then and are cold here: expect a slower start"
    assert [one.words for one in held.differences if one.known] == [words]
    assert held.overdue_after([10.0] * 5, "weight-load") == 70.0
    assert hold(warm, replace(HERE, caches="warm"), SGLANG).overdue_after([10.0] * 5, "weight-load") == 40.0


def test_loading_is_scaled_by_bytes_and_nothing_else_is() -> None:
    base = replace(good(500.0, load=(200.0,)), configuration=replace(HERE, weight_bytes=100 << 30))
    base = replace(base, phases=tuple(replace(row, p95_s=200.0) for row in base.phases))
    held = hold(base, replace(HERE, weight_bytes=300 << 30), SGLANG)
    words = "weights of 300.0 GiB here, 100.0 GiB then: downloads and loading are expected to take 3.0 times as long"
    assert words in [one.words for one in held.differences]
    assert held.overdue_after([200.0], "weight-load") == 2 * 3 * 200.0
    assert held.overdue_after([200.0], "kv-cache") == 2 * 200.0
    assert held.overdue_after([500.0]) == 2 * (500.0 + 2 * 200.0)  # the whole start: two more loads


def test_sizes_that_hardly_differ_are_the_same() -> None:
    base = replace(good(500.0), configuration=replace(HERE, weight_bytes=100 << 30))
    assert hold(base, replace(HERE, weight_bytes=102 << 30), SGLANG).alike


def test_a_scale_does_not_widen_the_margin() -> None:
    assert overdue_after([10.0] * 5, 3.0) == 60.0


def test_the_size_of_the_checkpoint_belongs_to_the_configuration() -> None:
    world = World()
    world.bend(TP0, LOAD)
    world.bend(TP1, BARRIER)
    world.storage = Storage(checkpoints=(Checkpoint("/models/m", bytes=7), Checkpoint("/models/draft", bytes=3)))
    diagnosis = look(world, 2)
    assert diagnosis.launch is not None
    assert configuration(diagnosis.history, diagnosis.launch, None).weight_bytes == 7
