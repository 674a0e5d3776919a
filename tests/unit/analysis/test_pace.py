"""Time left of a progress bar: right for a steady load, none where it cannot be known."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis.pace import Pace, read_bar
from hangdoc.engines.lines import progress_of

DATA = Path(__file__).parents[2] / "data" / "engines"


def bar(done: int, total: int, elapsed: float) -> str:
    """A line as tqdm prints it."""
    minutes, seconds = divmod(int(elapsed), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
    share = f"{100 * done // total:3}% Completed | {done}/{total}"
    return f"Loading safetensors checkpoint shards: {share} [{clock}<00:00,  4.88s/it]"


def read(pace: Pace, text: str, at: float | None) -> None:
    """As the logbook does: only what is a bar is taken in."""
    found = progress_of(text)
    if found is not None:
        read_bar(pace, text, found, at)


def watched(times: list[float], total: int) -> Pace:
    pace = Pace()
    for done, elapsed in enumerate(times):
        read(pace, bar(done, total, elapsed), 1000.0 + elapsed)
    return pace


@given(st.floats(2.0, 120.0), st.integers(6, 200))
def test_half_way_through_a_steady_load_the_time_left_is_right(step: float, total: int) -> None:
    half = total // 2
    pace = watched([step * number for number in range(half + 1)], total)
    left = pace.left(1000.0 + step * half)
    assert left is not None
    assert left[0] == pytest.approx(step * (total - half), rel=0.25)
    assert left[1] <= left[0] <= left[2] + 1e-6 or left[1] <= left[2]


@given(st.lists(st.floats(4.0, 8.0), min_size=4, max_size=40))
def test_uneven_steps_give_a_spread_that_holds_the_estimate(steps: list[float]) -> None:
    times = [sum(steps[:number]) for number in range(len(steps) + 1)]
    pace = watched(times, 2 * len(steps))
    left = pace.left(1000.0 + times[-1])
    assert left is not None
    assert left[0] == pytest.approx(sum(steps), rel=0.5)
    assert left[1] <= left[2]


def test_before_two_steps_nothing_is_known() -> None:
    assert watched([0.0], 8).left(1001.0) is None
    assert Pace().left(1.0) is None


def test_a_step_that_lasts_far_too_long_says_nothing_about_the_rest() -> None:
    pace = watched([0.0, 5.0, 10.0, 15.0], 8)
    assert pace.left(1016.0) is not None
    assert pace.left(1015.0 + 60.0) is None
    assert not pace.moved(1015.0 + 60.0)
    assert pace.words(1015.0 + 60.0) == "3 of 8"


def test_a_second_bar_of_the_same_form_starts_anew() -> None:
    pace = watched([0.0, 5.0, 10.0], 8)
    read(pace, bar(0, 8, 0), 1020.0)
    assert pace.rate() is None
    read(pace, bar(1, 8, 2), 1022.0)
    assert pace.rate() == 0.5


@given(st.text(max_size=80))
def test_any_text_is_harmless(text: str) -> None:
    pace = Pace()
    read(pace, text, 1.0)
    pace.left(2.0)


def test_a_bar_without_a_clock_goes_by_the_times_of_its_lines() -> None:
    pace = Pace()
    for done in range(6):
        read(pace, f"Repacking experts: {10 * done}% {done}/10", 1000.0 + 6 * done)
    left = pace.left(1030.0)
    assert left is not None
    assert left.likely == pytest.approx(30.0)
    assert pace.label == "Repacking experts"


def test_a_bar_of_which_no_line_carries_a_time_has_no_pace() -> None:
    pace = Pace()
    for done in range(6):
        read(pace, f"Repacking experts: {10 * done}% {done}/10", None)
    assert pace.left(1030.0) is None


def test_what_has_no_known_end_has_a_rate_and_no_time_left() -> None:
    pace = Pace(unit="B")
    for second in range(10):
        pace.add(float(second), second << 20, 0, 1000.0 + second)
    assert pace.rate() == pytest.approx(1 << 20)
    assert pace.left(1009.0) is None
    assert pace.words(1009.0) == "9.0 MiB"


def test_steps_that_differ_too_much_tell_of_no_pace() -> None:
    pace = Pace()
    for number, seconds in enumerate((0.0, 0.1, 0.2, 60.0, 60.1, 120.0)):
        pace.add(seconds, number, 20, 1000.0 + seconds)
    assert pace.left(1120.0) is None


@given(st.lists(st.floats(1.0, 15.0), min_size=4, max_size=40))
def test_the_estimate_lies_in_its_own_spread(steps: list[float]) -> None:
    pace = Pace()
    for number in range(len(steps) + 1):
        pace.add(sum(steps[:number]), number, 3 * len(steps), 1000.0 + sum(steps[:number]))
    left = pace.left(1000.0 + sum(steps))
    assert left is not None
    assert left.low <= left.likely <= left.high


def test_a_real_load_that_was_slowed_to_two_and_a_half_seconds_a_shard() -> None:
    """The bar of vLLM 0.32, 21 shards in 53 s, each opened with a delay: at every shard from a fifth to four fifths."""
    lines = (DATA / "vllm-0.32-slow-load.log").read_text().splitlines()
    pace, took = Pace(), 53.1
    for number, text in enumerate(lines[:-1]):
        now = took * number / 21
        read(pace, text, 1000.0 + now)
        if 0.2 <= number / 21 <= 0.8:
            left = pace.left(1000.0 + now)
            assert left is not None
            assert left.likely == pytest.approx(took - now, rel=0.25)
            assert left.low <= took - now <= left.high


@given(st.lists(st.integers(1, 50), min_size=2, max_size=30), st.floats(0.5, 5.0))
def test_files_of_any_sizes_leave_as_much_time_as_their_bytes(sizes: list[int], speed: float) -> None:
    """Half of the files are no half of the bytes: the last shard of a checkpoint is often much smaller."""
    done = len(sizes) // 2 + len(sizes) % 2
    pace = Pace(sizes=tuple(sizes))
    for number in range(done + 1):
        seconds = sum(sizes[:number]) / speed
        pace.add(seconds, number, len(sizes), 1000.0 + seconds)
    left = pace.left(pace.at or 0.0)
    if done < len(sizes):
        assert left is not None
        assert left.likely == pytest.approx(sum(sizes[done:]) / speed, rel=1e-6)


def test_a_bar_that_is_drawn_again_where_it_is_has_not_gone_on() -> None:
    pace = watched([0.0, 5.0, 10.0], 8)
    read(pace, bar(2, 8, 13), 1013.0)
    left = pace.left(1013.0)
    assert left is not None
    assert left.likely == pytest.approx(27.0)


@given(st.integers(2, 16), st.floats(10.0, 60.0), st.integers(2, 6), st.floats(0.3, 0.9))
def test_steps_that_are_under_way_at_once_come_in_bursts(at_once: int, took: float, bursts: int, when: float) -> None:
    """As shards that several threads read, each at its own pace: none is counted, then all of them."""
    total = at_once * bursts - 1  # the last burst is not full
    pace = Pace(at_once=True)
    pace.add(0.0, 0, total, 1000.0)
    seen = bursts // 2
    for burst in range(1, seen + 1):
        for number in range(at_once):
            seconds = burst * took + 0.01 * number
            pace.add(seconds, at_once * (burst - 1) + number + 1, total, 1000.0 + seconds)
    truly_left = took * (bursts - seen - when)
    left = pace.left(1000.0 + took * (seen + when))
    assert left is not None
    assert left.likely == pytest.approx(truly_left, rel=0.25, abs=0.1 * took)


def test_a_burst_that_has_just_begun_tells_no_time() -> None:
    pace = Pace(at_once=True)
    for number, seconds in enumerate((0.0, 20.0, 20.0, 20.0)):
        pace.add(seconds, number, 24, 1000.0 + seconds)
    assert pace.left(1021.0) is None
