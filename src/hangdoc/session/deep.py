"""`--deep`: after an ordinary look, native stacks of culprits and of a victim of each group, then strace of a busy one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from ..analysis.judge import Judgement
from ..analysis.view import Picture
from ..hosts.channel import ChannelError
from ..model.places import own
from .look import Look

TOOL_S = 2.0  # a tool is attached for at most so long
_ASK_S = TOOL_S + 2.0  # with the checks before and after
_CULPRITS, _VICTIMS = 4, 4
_BUSY = ("busy-loop", "sleep-loop", "computing", "gpu-spin")
_OPEN = ("suspect", "hung", "undecided")


class Step(msgspec.Struct, frozen=True):
    """One tool on one member."""

    probe: str  # native | strace
    pid: int
    label: str

    @property
    def announcement(self) -> str:
        """What a person is told before it happens."""
        what = "read its native stacks (py-spy)" if self.probe == "native" else "watch its system calls (strace)"
        return f"--deep: stops {self.label} (pid {own(self.pid)}) for up to {TOOL_S:.0f} s to {what}"


def plan(judgement: Judgement, pictures: Sequence[Picture]) -> list[Step]:
    """The steps in their order; empty where nothing is stuck. Pure."""
    if judgement.verdict not in _OPEN:
        return []
    culprits = list(judgement.culprits[:_CULPRITS]) or ([judgement.behind] if judgement.behind else [])
    named = {one.member.pid for one in judgement.culprits} | {one.member.pid for one in culprits}
    groups: dict[tuple[object, ...], Picture] = {}
    for one in pictures:
        if one.victim and one.member.needed and one.member.pid not in named:
            groups.setdefault(_shape(one), one)
    looked_at = [*culprits, *list(groups.values())[:_VICTIMS]]
    steps = [Step("native", one.member.pid, one.member.label) for one in looked_at if one.mechanism != "dead"]
    busy = next(
        (one for one in culprits if one.mechanism in _BUSY or (one.mechanism == "unknown" and one.moving is None)), None
    )
    return [*steps, Step("strace", busy.member.pid, busy.member.label)] if busy else steps


def _shape(one: Picture) -> tuple[object, ...]:
    frame = one.frame
    return one.member.role, one.phase, one.mechanism, frame and (frame.file, frame.function)


def run(look: Look, announce: Callable[[str], None], until: float) -> None:
    """Do the steps, each announced first, as long as there is time (`until`: CLOCK_MONOTONIC)."""
    steps = plan(look.diagnosis.judgement(ended=True), look.diagnosis.pictures())
    if not steps:
        announce("--deep: nothing is stuck, so nothing was stopped")
    for number, step in enumerate(steps):
        left = until - time.monotonic()
        if left < 1.5:
            announce(f"--deep: no time is left for {len(steps) - number} of its steps; use a longer --timeout")
            return
        announce(step.announcement)
        try:
            look.closer(step.probe, (step.pid,), min(_ASK_S, left))
        except ChannelError as error:  # what was seen before stays true
            announce(f"--deep: given up: {error}")
            return
