"""What can be recorded and what is refused: clocks that jump, rotated logs, starts seen late, starts that fail."""

from __future__ import annotations

from dataclasses import replace
from time import gmtime, strftime

import pytest

from hangdoc.baselines.recorder import NotGood, Recorder
from hangdoc.model.sample import Health, Sample

from ..analysis.world import BOOT, ROOT, WALL, World

AGE = 2.0  # seconds after its start at which it is first seen
LINES = (
    (3, "server_args=ServerArgs(model_path='/models/m', tp_size=2)", ""),
    (10, "Init parallel begin.", " TP0"),
    (10, "Init parallel begin.", " TP1"),
    (11, "Init parallel ends. elapsed=0.3 s", " TP0"),
    (12, "Load weight begin. avail mem=9 GB", " TP0"),
    (14, "Load weight begin. avail mem=9 GB", " TP1"),
    (20, "Load weight end. elapsed=8 s", " TP0"),
    (21, "Load weight end. elapsed=7 s", " TP1"),
    (24, "Memory pool end. avail mem=5 GB", " TP0"),
    (29, "The server is fired up and ready to roll!", ""),
)


def line(at: float, text: str, who: str) -> str:
    return f"[{strftime('%Y-%m-%d %H:%M:%S', gmtime(WALL - AGE + at))}{who}] {text}\n"


def samples(until: float = 30.0, first: float = AGE) -> list[Sample]:
    """A good start of 29 s, one look a second."""
    world = World()
    for pid in world.processes:
        world.bend(pid, start=BOOT - AGE + (0 if pid == ROOT else 4))
    found, written = [], 0
    age = first
    while age <= until:
        text = "".join(line(*row) for row in LINES[written:] if row[0] <= age)
        written = sum(row[0] <= age for row in LINES)
        sample = world.sample(age - AGE, text)
        logs = [replace(one, mtime=WALL - AGE + age, lines=world.log.count("\n")) for one in sample.logs]
        health = [Health(ROOT, 8000, "/health", 200)] if age >= 30 else []
        found.append(replace(sample, logs=logs, health=health))
        age += 1.0
    return found


def recorded(given: list[Sample]) -> Recorder:
    recorder = Recorder(ROOT)
    for one in given:
        recorder.add(one)
    return recorder


def test_a_good_start_is_recorded_with_phases_by_launch_and_by_member() -> None:
    found = recorded(samples()).baseline("x", "start")
    (run,) = found.runs
    assert (run.ready_s, run.partial, run.lines) == (29.0, False, len(LINES))
    took = {row.id: row.duration_s[0] for row in found.phases}
    assert took["weight-load"] == 9.0  # from "Init parallel ends." of TP0 to "Load weight end." of TP0
    load = next(row for row in found.phases if row.id == "weight-load")
    assert load.dwell_s == {"scheduler TP0": (9.0,), "scheduler TP1": (7.0,)}
    assert found.configuration.model == "m"
    assert found.configuration.args == {"tensor-parallel-size": "2"}
    assert [one.text for one in found.lines][:2] == [
        "server_args=ServerArgs(model_path='#', tp_size=#)",
        "Init parallel begin.",
    ]
    assert {one.role: one.processes for one in found.processes} == {"launcher": 1, "scheduler": 2, "detokenizer": 1}


def test_a_start_first_seen_in_the_middle_is_partial_and_has_the_same_phases() -> None:
    whole, late = recorded(samples()).baseline("x", "start"), recorded(samples(first=18.0)).baseline("x", "start")
    assert late.runs[0].partial
    assert [(row.id, row.duration_s) for row in late.phases] == [(row.id, row.duration_s) for row in whole.phases]
    assert all(row.lines == (None,) for row in late.phases)


def test_a_start_that_did_not_become_ready_is_refused_whichever_phase_it_failed_in() -> None:
    for until in (5.0, 15.0, 28.0):
        with pytest.raises(NotGood, match="did not become ready"):
            recorded(samples(until)).baseline("x", "start")


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(NotGood, match="no launch"):
        Recorder(ROOT).baseline("x", "start")


@pytest.mark.parametrize("jump", [-3600.0, 60.0])
def test_a_clock_that_jumped_is_refused(jump: float) -> None:
    given = samples()
    given = given[:15] + [replace(one, at=one.at + jump) for one in given[15:]]
    with pytest.raises(NotGood, match="clock jumped"):
        recorded(given).baseline("x", "start")


def test_a_log_that_was_rotated_makes_the_run_partial_and_its_totals_unknown() -> None:
    given = samples()
    given[20] = replace(given[20], logs=[replace(one, note="rotated") for one in given[20].logs])
    (run,) = recorded(given).baseline("x", "start").runs
    assert run.partial
    assert run.lines is None


def test_the_hosts_name_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (*LINES[:-1], (26, "Serving on box now, not in a box-office", " TP0"), LINES[-1])
    monkeypatch.setattr(f"{__name__}.LINES", rows)
    texts = [one.text for one in recorded(samples()).baseline("x", "start").lines]
    assert "Serving on # now, not in a box-office" in texts
