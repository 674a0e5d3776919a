"""What moves and how long it will still take: weight bytes, compilers, limits, wake-ups, and the clock of progress."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hangdoc.analysis.loading import Loading
from hangdoc.analysis.tracks import Tick
from hangdoc.model.report import ProgressRow, Report
from hangdoc.model.sample import Cgroup, Checkpoint, Io, Partial, Place, Storage

from .world import BARRIER, FACTS, HOOK, INIT, LOAD, ROOT, TP0, TP1, WALL, World, look, process, stack, waiting

BEGIN = "".join(f"[2023-11-14 22:13:20 TP{n}] Load weight begin. avail mem=1.5 GB\n" for n in (0, 1))
IO = Io(0, 0, 0, 0, 0, 0)
MB = 1 << 20


def tick(at: float, **changes: int) -> Tick:
    counters = {"rss_file": 0, "read_bytes": 0, "rchar": 0, **changes}
    return structs.replace(Tick(at, 0.0, 0, 0, 0, 0, 0, 0, 0), **counters)


def row(report: Report, channel: str) -> ProgressRow:
    return next(one for one in report.progress if one.channel.startswith(channel))


@pytest.mark.parametrize("counter", ["read_bytes", "rchar"])
@given(st.floats(9.0, 400.0), st.integers(20, 200))
def test_half_way_through_the_time_left_is_right_by_any_counter(counter: str, speed: float, seconds: int) -> None:
    total = int(speed * MB * seconds)
    load = Loading(tick(100.0), tick(100.0))
    half = seconds // 2
    for second in range(1, half + 1):
        load.add(tick(100.0 + second, **{counter: int(speed * MB * second)}), 5000.0 + second, total)
    left = load.pace.left(5000.0 + half)
    assert left is not None
    assert left.likely == pytest.approx(seconds - half, rel=0.25)


def test_modules_that_are_read_meanwhile_are_no_weights() -> None:
    """Seen with SGLang 0.5.23: 220 MiB came from the page cache in 8 s, and 1 MiB a second of Python modules was counted."""
    load = Loading(tick(0.0), tick(0.0))
    for second in range(1, 21):
        load.add(tick(float(second), rchar=second * MB, read_bytes=second * MB), 50.0 + second, 220 * MB)
    assert load.pace.left(70.0) is None


def test_what_is_only_mapped_has_a_rate_and_no_time_left() -> None:
    """Files that are mapped and unmapped between two looks are missed, so the counter falls behind."""
    load = Loading(tick(0.0), tick(0.0))
    for second in range(1, 11):
        load.add(tick(float(second), rss_file=second * 100 * MB), 50.0 + second, 5000 * MB)
    assert load.pace.rate() == pytest.approx(100 * MB)
    assert load.pace.left(60.0) is None


def test_files_that_are_unmapped_after_use_count_all_the_same() -> None:
    load = Loading(tick(0.0), tick(0.0))
    for second in range(1, 13):
        resident = (second % 4) * 100 * MB  # each file of 300 MB is mapped, read in 3 s and given back
        load.add(tick(float(second), rss_file=resident), 50.0 + second, 2000 * MB)
    assert load.pace.done == 900 * MB


def test_more_than_the_checkpoint_holds_has_no_known_end() -> None:
    load = Loading(tick(0.0), tick(0.0))
    for second in range(1, 10):
        load.add(tick(float(second), read_bytes=second * 100 * MB), 50.0 + second, 500 * MB)
    assert load.pace.left(60.0) is None
    assert load.pace.words(60.0) == "900.0 MiB"


def loading_world(*, begun: bool = True) -> World:
    """Both ranks load; `begun` before the look, else their lines have to come."""
    world = World()
    world.log = BEGIN if begun else "server_args={}\n"
    world.bend(TP1, LOAD, io=IO)
    return world


def test_the_rank_that_loads_is_told_with_its_rate() -> None:
    world = loading_world()

    def move(here: World, second: int) -> None:
        here.bend(TP1, io=replace(IO, read_bytes=50 * MB * second, rchar=0), utime=0.1 * second, state="D")

    report = look(world, 16, move).report("0")
    weights = row(report, "weights read of scheduler TP1")
    assert weights.moved
    assert weights.unit == "B/s"
    assert weights.rate == pytest.approx(50 * MB, rel=0.05)
    assert weights.limit == "storage"
    assert weights.eta_s is None  # the checkpoint's size is not known
    assert "storage" in weights.detail


def test_a_rank_that_spends_one_core_is_limited_by_it() -> None:
    world = loading_world()

    def move(here: World, second: int) -> None:
        here.bend(TP1, io=replace(IO, rchar=50 * MB * second, syscr=second), utime=1.0 * second, state="R")

    assert row(look(world, 16, move).report("0"), "weights read of scheduler TP1").limit == "one CPU core"


def test_shards_half_way_are_in_the_summary() -> None:
    world = loading_world()
    world.bend(TP0, LOAD)  # the first rank prints the bar for all
    world.bend(TP1, BARRIER)

    def move(here: World, second: int) -> str:
        if second % 4:
            return ""
        here.mtime, done = WALL + second, second // 4
        return f"Loading safetensors checkpoint shards: {10 * done}% Completed | {done}/10 [00:{second:02}<00:30,  4.0s/it]\n"

    report = look(world, 21, move).report("0")
    assert report.verdict == "progressing"
    assert "5 of 10, about 20 s left" in report.summary
    bar = next(one for one in report.progress if one.total == 10)
    assert (bar.done, bar.eta_s) == (5, 20.0)
    assert bar.eta_low_s is not None
    assert bar.eta_high_s is not None
    assert bar.eta_low_s <= 20.0 <= bar.eta_high_s


def half_way(sizes: tuple[int, ...]) -> ProgressRow:
    """Two of four shards are loaded, 10 s each. As tqdm draws a bar: what ends its line comes with the next step."""
    world = loading_world()
    world.bend(TP0, LOAD)
    world.storage = Storage(checkpoints=(Checkpoint("/models/m", sizes=sizes),))

    def move(here: World, second: int) -> str:
        if second % 10:
            return ""
        here.mtime, done = WALL + second, second // 10
        return f"\rMulti-thread loading shards: {25 * done}% Completed | {done}/4 [00:{second:02}<00:30, 10.0s/it]"

    return next(one for one in look(world, 21, move).report("0").progress if one.total == 4)


def test_a_bar_is_read_when_it_is_drawn() -> None:
    assert (half_way(()).done, half_way(()).eta_s) == (2, 20.0)


def test_shards_are_weighed_by_their_sizes() -> None:
    assert half_way((50, 50, 50, 10)).eta_s == 12.0
    assert half_way((50, 50, 50)).eta_s == 20.0  # sizes of something else


def test_compilers_are_counted_and_have_no_time_left() -> None:
    world = loading_world()

    def move(here: World, second: int) -> None:
        here.processes.pop(500 + second - 1, None)
        here.processes[500 + second] = process(500 + second, TP1, "/usr/bin/nvcc -c file.cu", (HOOK,))

    compilers = row(look(world, 12, move).report("0"), "compilers")
    assert compilers.done == 12
    assert compilers.moved
    assert compilers.rate == pytest.approx(1.0)
    assert compilers.eta_s is None


def test_work_is_no_progress() -> None:
    """A rank that reads all the time has not been still, yet its last progress was the line before."""
    world = World()
    world.log = BEGIN
    world.bend(TP1, (HOOK, *INIT), io=IO)

    def move(here: World, second: int) -> None:
        here.bend(TP1, io=replace(IO, rchar=MB * second, syscr=second))

    clocks = look(world, 16, move).report("0").clocks
    assert clocks.quiet_s == 0.0
    assert clocks.since_progress_s == 15.0


def test_threads_that_wake_for_nothing_are_idling() -> None:
    world = World()
    world.bend(TP1, (HOOK, *INIT))

    def move(here: World, second: int) -> None:
        here.bend(TP1, thread=waiting(TP1), others={9: waiting(9, slices=100 + second, sp=3)})

    report = look(world, 16, move).report("0")
    found = row(report, f"wake-ups of scheduler TP1 ({TP1})")
    assert (found.kind, found.moved) == ("idling", True)
    assert found.detail == "1 of 2 threads woke and went back to the same wait"
    assert report.verdict == "suspect"


def test_what_is_stopped_wakes_no_more() -> None:
    """Its threads ran before, which the look after the signal still sees."""
    world = World()

    def move(world: World, second: int) -> None:
        others = {5000 + n: waiting(5000 + n, slices=min(second, 4)) for n in range(3)}
        world.bend(TP1, thread=waiting(TP1), others=others, state="S" if second < 3 else "T")

    report = look(world, 12, move).report("0")
    assert report.culprits[0].mechanism == "stopped"
    assert not any(one.channel.startswith("wake-ups of scheduler TP1") for one in report.progress)


def test_cpu_time_in_one_place_is_idling_that_moves() -> None:
    world = World()
    world.bend(TP1, (HOOK, *INIT))
    world.bend(TP0, BARRIER)

    def move(here: World, second: int) -> None:
        here.bend(TP1, utime=1.0 * second, state="R", stacks=[stack(TP1, (HOOK, *INIT))])

    cpu = row(look(world, 16, move).report("0"), "cpu of scheduler TP1")
    assert (cpu.kind, cpu.moved, cpu.detail) == ("idling", True, "spent in one place")


def test_a_cgroup_that_is_throttled_limits() -> None:
    world = loading_world()

    def move(here: World, second: int) -> None:
        here.facts = replace(FACTS, cgroups={"/x": Cgroup(throttled_s=0.5 * second)})
        here.bend(TP1, io=replace(IO, rchar=5 * MB * second, syscr=second), utime=0.2 * second)

    assert row(look(world, 16, move).report("0"), "weights read").limit == "the CPU quota of its cgroup"


def test_the_root_has_no_weights() -> None:
    world = loading_world()
    world.bend(ROOT, io=IO)

    def move(here: World, second: int) -> None:
        here.bend(ROOT, io=replace(IO, read_bytes=50 * MB * second))

    assert not [one for one in look(world, 6, move).report("0").progress if one.channel.startswith("weights")]


@pytest.mark.parametrize("begun", [False, True])
def test_weights_against_the_size_of_the_checkpoint_have_a_time_left_when_their_beginning_was_seen(
    *, begun: bool
) -> None:
    world = loading_world(begun=begun)
    world.storage = Storage(checkpoints=(Checkpoint("/models/m", bytes=2100 * MB, expected_bytes=2000 * MB),))

    def move(here: World, second: int) -> str:
        here.bend(TP1, rss_file=40 * MB * second, io=replace(IO, read_bytes=50 * MB * second))
        return BEGIN if second == 1 and not begun else ""

    weights = row(look(world, 22, move).report("0"), "weights read of scheduler TP1")
    assert weights.rate == pytest.approx(50 * MB, rel=0.05)
    assert weights.total == (None if begun else 2000 * MB)
    assert weights.eta_s == (None if begun else pytest.approx(20.0, rel=0.1))


@pytest.mark.parametrize("changes", [("--load-format", "fastsafetensors"), ("--pp-size", "2")])
def test_ranks_that_divide_the_files_have_no_known_end(changes: tuple[str, str]) -> None:
    world = loading_world(begun=False)
    world.storage = Storage(checkpoints=(Checkpoint("/models/m", bytes=2100 * MB),))
    world.bend(ROOT, cmdline=(*(world.processes[ROOT].cmdline or ()), *changes))

    def move(here: World, second: int) -> str:
        here.bend(TP1, io=replace(IO, read_bytes=50 * MB * second))
        return BEGIN if second == 1 else ""

    weights = row(look(world, 11, move).report("0"), "weights read of scheduler TP1")
    assert (weights.total, weights.eta_s) == (None, None)


def downloading(second: int, *, left: bool = False) -> Storage:
    changed = WALL - 4000 if left else WALL + second
    partial = Partial("/hub/x.incomplete", 4000 * MB, 100 * MB * second, changed, "org/m")
    return Storage(
        checkpoints=(Checkpoint("/models/m", bytes=500 * MB, expected_bytes=5000 * MB),), partials=(partial,)
    )


def test_a_download_is_progress_and_has_a_time_left() -> None:
    world = World()

    def move(here: World, second: int) -> None:
        if second % 5 == 0:
            here.storage = downloading(second)

    report = look(world, 21, move).report("0")
    assert report.verdict == "progressing"
    download = next(one for one in report.progress if one.channel == "download")
    assert (download.done, download.total) == (2500 * MB, 5000 * MB)
    assert download.eta_s == pytest.approx(25.0, rel=0.1)
    assert report.clocks.since_progress_s == 0.0


def test_an_unfinished_file_that_was_left_there_is_no_download() -> None:
    world = World()
    world.storage = downloading(3, left=True)
    report = look(world, 16).report("0")
    assert report.verdict == "suspect"
    assert not [one for one in report.progress if one.channel.startswith("download")]


def compiling(*, busy: bool) -> Report:
    """A rank that compiles in its own process, in native code: one place, and now and then a file in the cache."""
    world = World()
    world.bend(TP1, (HOOK, *INIT))

    def move(here: World, second: int) -> None:
        if busy:
            here.bend(TP1, utime=1.0 * second, state="R")
        if second in (8, 14):
            newest = WALL + second - 1
            here.storage = Storage(
                places=(Place("deep-gemm", "/c", pids=(TP1,), exists=True, files=second, newest=newest),)
            )

    return look(world, 17, move).report("0")


def test_a_new_file_in_a_compilers_cache_is_progress_of_who_computes() -> None:
    report = compiling(busy=True)
    assert report.verdict == "progressing"
    assert row(report, "cache files of scheduler TP1").kind == "progress"
    files = row(report, "files in compilers' caches")
    assert (files.done, files.moved, files.eta_s) == (14, True, None)


def test_a_cache_that_somebody_else_fills_moves_nobody_who_waits() -> None:
    assert compiling(busy=False).verdict == "suspect"


def test_a_bar_that_names_nobody_may_be_of_the_rank_that_seems_still() -> None:
    world = World()
    world.log = BEGIN
    world.bend(TP1, (HOOK, *INIT))

    def move(here: World, second: int) -> str:
        return f"Repacking layers: {5 * second}% {second}/20 [00:{second:02}<00:09,  1.00s/it]\n" if second else ""

    assert look(world, 18, move).report("0").verdict == "progressing"
    assert look(world, 18).report("0").verdict == "suspect"
