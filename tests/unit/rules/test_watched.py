"""Causes of a start that was watched from its first second: what a member did before it got stuck is in the same window."""

from __future__ import annotations

from typing import Any

import pytest

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.sample import FutexWait
from hangdoc.rules import load
from hangdoc.rules.known import Known

from ..analysis.world import HOOK, INIT, ROOT, TP1, World, waiting

_STUCK = 10  # second at which it gets stuck
_OTHER = 5000  # another thread of the same process


def _futex(tid: int, owner: int) -> Any:
    return waiting(tid, syscall=202, args=(5, 128, 2, 0, 0, 0), futex=FutexWait(5, "mutex", 2, owner))


WAYS: dict[str, dict[str, Any]] = {
    "lock-not-given-back": {"thread": _futex(TP1, _OTHER), "others": {_OTHER: _futex(_OTHER, TP1)}},
    "mutex-held-by-itself": {"thread": _futex(TP1, TP1)},
    "rank-stopped": {"thread": waiting(TP1, state="T"), "state": "T"},
}


def watched(seconds: int, stuck: dict[str, Any]) -> Diagnosis:
    """A rank that loads for ten seconds, and then gets stuck."""
    world, diagnosis = World(), Diagnosis(ROOT, reasons=Known(load.catalogue()))
    for second in range(seconds):
        if second < _STUCK:
            done = {"utime": 0.9 * second, "rss": (1 << 30) + second * (8 << 20)}
            world.bend(TP1, INIT, thread=waiting(TP1, state="R", syscall=None, slices=second), state="R", **done)
        elif second == _STUCK:
            world.bend(TP1, (HOOK, *INIT), **{"state": "S", **stuck})
        diagnosis.add(world.sample(float(second)))
    return diagnosis


@pytest.mark.parametrize("cause", sorted(WAYS))
def test_the_cause_is_told_as_soon_as_the_hang_is_certain(cause: str) -> None:
    """It loaded nine seconds ago, which says nothing about one that cannot go on."""
    report = watched(_STUCK + 7, WAYS[cause]).report("0")
    assert (report.verdict, report.confidence) == ("hung", "certain")
    assert report.causes[0].id == cause
    row = next(one for one in report.processes if one.pid == TP1)
    assert row.cpu_pct == 0.0
    assert not any(one.moved and "TP1" in one.channel for one in report.progress)


@pytest.mark.parametrize("cause", sorted(WAYS))
def test_what_has_not_held_for_long_enough_takes_no_movement_back(cause: str) -> None:
    """The near miss: three seconds are no proof, and it loaded a moment ago."""
    report = watched(_STUCK + 3, WAYS[cause]).report("0", ended=False)
    assert report.verdict != "hung"
    assert report.causes == []
