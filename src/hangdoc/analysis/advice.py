"""What to do now, in words with this launch's own values in them. The words are data: engines/data/advice.yaml."""

from __future__ import annotations

import re

from ..engines.load import advice
from ..model.sample import Unseen
from .view import Picture

REACH = "reach"  # the probe of an `Unseen` that stands for a whole host


def next_steps(one: Picture) -> list[str]:
    """Commands and hints for a culprit, safe ones first, with its own values in them."""
    values = {"pid": str(one.member.pid), "tid": str(one.tid or one.member.pid), "object": one.object or "it"}
    steps = advice().next
    return [step.format(**values) for step in steps.get(one.mechanism, steps["unknown"])]


def deep_step(one: Picture) -> str | None:
    """What `--deep` would add about a member; None where that would not matter."""
    words = advice().deep.get(one.mechanism)
    return words.format(pid=one.member.pid) if words else None


def disproof(one: Picture) -> str:
    """What would prove that this member is not the culprit of a hang."""
    return f"a new log line of {one.member.label}, or its stack in another function, in a second look a minute later"


def fix_of(unseen: Unseen) -> str:
    """How to see it without losing the evidence first."""
    words = advice()
    if unseen.probe == REACH:
        return next(
            (fix for said, fix in words.reach.items() if re.search(said, unseen.detail)), words.see_more["failed"]
        )
    return words.see_more_of.get(unseen.probe, {}).get(unseen.reason) or words.see_more[unseen.reason]
