"""What to do now, in words with this launch's own values in them. The words are data: engines/data/advice.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from ..engines.load import advice
from ..model.places import REACH, own
from ..model.sample import Unseen
from .view import Picture

# Steps that begin with one of these are commands, up to the explanation behind four blanks.
_COMMAND = re.compile(
    r"(cat|df|dmesg|du|grep|ls|lslocks|lsof|nvidia-smi|ps|py-spy|ss|timeout)\b.*?(?=    |; look at|\Z)", re.DOTALL
)


def next_steps(one: Picture) -> list[str]:
    """Commands and hints for a culprit, safe ones first, with its own values in them."""
    pid, host = own(one.member.pid), one.member.host
    values = {"pid": str(pid), "tid": str(own(one.tid or pid)), "object": one.object or "it"}
    steps = advice().next
    return [_there(step, values, host) for step in steps.get(one.mechanism, steps["unknown"])]


def _there(step: str, values: Mapping[str, str], host: str) -> str:
    """A step with its values, for the host where it is to be done; without one, for here."""
    if not host:
        return step.format(**values)
    if step.startswith("hangdoc"):
        return step.format(**{**values, "pid": f"{host}:{values['pid']}"})
    words, command = step.format(**values), _COMMAND.match(step)
    if command is None:
        return f"on {host}: {words}" if "{pid}" in step else words
    what = command.group().format(**values)
    return f"ssh {host} {shlex.quote(what)}" + words.removeprefix(what)


def deep_step(one: Picture) -> str | None:
    """What `--deep` would add about a member; None where that would not matter."""
    words = advice().deep.get(one.mechanism)
    return _there(words, {"pid": str(own(one.member.pid))}, one.member.host) if words else None


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
