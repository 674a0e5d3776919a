"""What is kept of a launch stays small, however long it is watched."""

from __future__ import annotations

from dataclasses import replace

from hangdoc.analysis import floors
from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.sample import Fd, Unseen

from .world import ROOT, TP0, TP1, World, look, process, waiting


def test_helpers_that_ended_are_forgotten_and_members_are_not() -> None:
    world = World()

    def compile_on(world: World, second: int) -> None:
        world.processes.pop(1000 + second - 1, None)
        world.processes[1000 + second] = process(1000 + second, TP0, "gcc", (), fds={})

    diagnosis = look(world, 120, compile_on)
    assert len(diagnosis.history.tracks) < 50
    launch = diagnosis.launch
    assert launch is not None
    assert len(launch.members) < 50
    del world.processes[TP1]
    diagnosis.add(world.sample(121.0))
    diagnosis.add(world.sample(200.0))
    assert TP1 in diagnosis.history.tracks


def test_stacks_deadlines_and_blind_spots_are_bounded() -> None:
    world = World()

    def go_on(world: World, second: int) -> None:
        world.bend(TP1, thread=waiting(TP1, deadline=1000.0 + second))
        world.unseen = [Unseen("stacks", "failed", "x", 5000 + second)]

    diagnosis = look(world, 700, go_on)
    track = diagnosis.history.tracks[TP1]
    assert track.stacks[-1][0] - track.stacks[0][0] <= 3 * floors.STILL_S
    assert len(track.threads[TP1].deadlines) < 10
    assert len(diagnosis.history.unseen) <= 512


def test_a_server_that_repeats_its_lines_fills_nothing() -> None:
    world = World()
    diagnosis = look(world, 300, lambda _, second: f"[2026-01-01 10:00:00 TP0] Load weight begin. {second}\n")
    written = diagnosis._logbook.by_member[TP0]  # type: ignore[union-attr]
    assert len(written.marks) < 10


def test_a_look_at_the_outputs_alone_keeps_the_other_descriptors() -> None:
    world = World()
    world.bend(ROOT, fds={1: Fd(1, "file", "/log"), 2: Fd(2, "file", "/log"), 9: Fd(9, "pipe", "pipe:[7]", 7)})
    diagnosis = look(world, 2)
    world.bend(ROOT, fds={1: Fd(1, "file", "/log", pos=5), 2: Fd(2, "file", "/log")})
    diagnosis.add(world.sample(2.0))
    assert set(diagnosis.history.tracks[ROOT].process.fds or {}) == {1, 2, 9}


def test_a_lock_seen_once_is_not_called_stable_for_want_of_a_second_look() -> None:
    """Threads are looked at more seldom than processes: what was not looked at again has not been stable."""
    world = World()
    diagnosis = look(world, 2)
    for second in range(2, 20):
        bare = {pid: replace(one, threads=None, stacks=None) for pid, one in world.processes.items()}
        diagnosis.add(replace(world.sample(float(second)), processes=bare))
    (one,) = (one for one in diagnosis.pictures() if one.member.pid == TP1)
    assert one.since_s is not None
    assert one.since_s <= 1.0


def test_an_engine_that_is_recognised_late_begins_a_history_of_its_own() -> None:
    world = World()
    engine = world.processes.copy()
    shell = replace(engine[ROOT], cmdline=("sh", "-c", "sleep 3; exec server"), comm="sh")
    diagnosis = Diagnosis(ROOT)
    world.processes = {ROOT: shell}
    diagnosis.add(world.sample(0.0))
    assert diagnosis.launch is not None
    assert diagnosis.launch.engine == "unknown"
    world.processes = engine
    diagnosis.add(world.sample(1.0))
    assert diagnosis.launch.engine == "sglang"
    assert diagnosis.history.samples == 1
    assert diagnosis.log_offsets() == {}


def test_silence_before_the_ready_line_does_not_count() -> None:
    """The health path is asked from the first second; that nobody answers then is as it should be."""
    from hangdoc.model.sample import Health

    world = World()
    world.log = "[2026-01-01 10:00:00 TP0] Load weight begin.\n"
    world.health = [Health(ROOT, 8000, "/health", None, "refused")]
    line = "[2026-01-01 10:00:50] The server is fired up and ready to roll!\n"
    soon = look(world, 60, lambda _, second: line if second == 50 else "")
    assert soon.judgement().phase != "ready" or soon.judgement().verdict != "hung"
    later = look(World(), 1)
    world.log = ""
    later = look(world, 90, lambda _, second: line if second == 50 else "")
    assert "health path has been silent" in " ".join(later.judgement().reasons)
