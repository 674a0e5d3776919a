"""How often a live screen is drawn: each picture costs."""

from __future__ import annotations

from hangdoc.cli.voices import Live
from hangdoc.model.report import About, Engine, Report
from hangdoc.model.watching import Event, Moment
from hangdoc.model.words import Verdict

HAPPENED = Event("phase", 0.0, "phase import", {"phase": "import"})
CAME = Event("member", 0.0, "worker TP0 appeared", {"change": "appeared"})


def drawn(verdict: Verdict, *ticks: list[Event] | str) -> int:
    """How many pictures are drawn in ticks that follow each other at once; a text is a line of the command's output."""
    pictures = 0

    def moment() -> Moment:
        nonlocal pictures
        pictures += 1
        return Moment(Report(About("0", 0.0, 1, 0.0, "live"), verdict, "likely", "", Engine("vllm")))

    screen = Live()
    try:
        for tick in ticks:
            screen.lines([tick] if isinstance(tick, str) else [])
            screen.events([] if isinstance(tick, str) else tick, moment)
    finally:
        screen.close()
    return pictures


def test_while_all_is_well_a_tick_in_which_nothing_happens_is_not_drawn() -> None:
    assert drawn("progressing", [], [], [CAME]) == 1


def test_what_happens_and_lines_of_the_output_are_drawn_at_once() -> None:
    assert drawn("progressing", [], [CAME, HAPPENED], [], "a line", []) == 3


def test_who_may_be_stuck_is_drawn_at_each_tick() -> None:
    assert drawn("suspect", [], [], []) == 3


def test_a_start_that_is_ready_is_not_drawn_for_its_report_takes_the_place_of_the_screen() -> None:
    ready = Event("verdict", 0.0, "vLLM is ready.", {"verdict": "ready"})
    assert drawn("ready", [ready]) == 0
    assert drawn("progressing", [Event("verdict", 0.0, "vLLM is starting.", {"verdict": "progressing"})]) == 1
