"""What a Python stack means: the phase, what the thread waits for, and on whom. Pure.

Each question is answered by the innermost frame that has an answer. So a wrapper, a decorator or a profiler between two
frames changes nothing, and `Scheduler.__init__` says "engine-init" only until something further in says more.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.sample import Frame, Stack
from ..model.words import Mechanism, Phase
from .load import merged_frames
from .profile import FrameRule, Profile

# How many frames further out a firm mechanism may be, to say more than plumbing does (Queue.get over Condition.wait).
_PLUMBING = 6


@dataclass(frozen=True)
class Meaning:
    """What a stack says. None where it says nothing."""

    phase: Phase | None = None
    mechanism: Mechanism | None = None
    waits_for: str | None = None
    idle: bool = False
    frame: Frame | None = None  # the frame that gave mechanism or wait, else the one that gave the phase


class _Rules:
    """Frame rules of a profile, by the last part of the function's name."""

    def __init__(self, rules: Sequence[FrameRule]) -> None:
        self._named: dict[str, list[FrameRule]] = {}
        self._any: list[FrameRule] = []
        for rule in rules:
            last = rule.function.rpartition(".")[2]
            (self._any if rule.function == "*" else self._named.setdefault(last, [])).append(rule)
        self._found: dict[tuple[str, str, str], tuple[FrameRule, ...]] = {}

    def of(self, frame: Frame) -> tuple[FrameRule, ...]:
        """Rules that name this frame, in their order, those for any function of a file last."""
        key = (frame.function, frame.file, frame.short)
        if key not in self._found:
            if len(self._found) > 1 << 16:  # hostile stacks must not fill the memory
                self._found.clear()
            named = self._named.get(frame.function.rpartition(".")[2], [])
            # A module's body is an import of it: it does not do what its functions do.
            rules = [rule for rule in named if _function(rule, frame.function)]
            rules += [] if frame.function == "<module>" else self._any
            self._found[key] = tuple(rule for rule in rules if in_file(frame, rule.file))
        return self._found[key]


def _function(rule: FrameRule, name: str) -> bool:
    if name == rule.function or name.endswith("." + rule.function):
        return True
    # Python <= 3.10 tells no class: then the file decides.
    return "." not in name and bool(rule.file) and rule.function.rpartition(".")[2] == name


def in_file(frame: Frame, suffix: str) -> bool:
    """Whether a frame's file ends with `suffix` at a folder's border; with "/" at its end, lies below such a folder."""
    if not suffix:
        return True
    if suffix.endswith("/"):
        return any(f"/{suffix}" in f"/{path}" for path in (frame.file, frame.short))
    return any(path == suffix or path.endswith("/" + suffix) for path in (frame.file, frame.short))


@functools.lru_cache(maxsize=16)
def _rules_of(engine: str, frames: tuple[FrameRule, ...]) -> _Rules:
    return _Rules(frames)


_CACHE: dict[int, tuple[Profile, _Rules]] = {}


def _rules(profile: Profile) -> _Rules:
    # By identity: hashing hundreds of rules for each stack would cost more than the stack.
    known = _CACHE.get(id(profile))
    if known is None or known[0] is not profile:
        known = profile, _rules_of(profile.engine, merged_frames(profile))
        _CACHE[id(profile)] = known
    return known[1]


def _applies(rule: FrameRule, at: int, frames: Sequence[Frame]) -> bool:
    if rule.leaf and at != 0:
        return False
    return not rule.under or any(
        outer.function == name or outer.function.endswith("." + name) for outer in frames[at + 1 :] for name in rule.under
    )


def _is_import(rule: FrameRule) -> bool:
    return rule.phase == "import"


def meaning(stack: Stack, profile: Profile) -> Meaning:
    """What a stack says about its thread's phase and wait. Frames come innermost first, as py-spy gives them.

    "import" counts only when no frame says another phase: a lazy import happens in every phase.
    """
    rules = _rules(profile)
    frames = stack.frames
    phase: Phase | None = None
    importing = idle = False
    mechanism: Mechanism | None = None
    weak_at: int | None = None
    waits_for: str | None = None
    told: Frame | None = None
    placed: Frame | None = None
    for at, frame in enumerate(frames):
        applying = [rule for rule in rules.of(frame) if _applies(rule, at, frames)]
        for rule in applying:
            if rule.phase and phase is None:
                importing |= _is_import(rule)
                if not _is_import(rule):
                    phase, placed = rule.phase, frame
            if rule.mechanism and mechanism is None:
                mechanism, told, weak_at = rule.mechanism, told or frame, at if rule.weak else None
            elif rule.mechanism and weak_at is not None and not rule.weak and at - weak_at <= _PLUMBING:
                mechanism, weak_at = rule.mechanism, None
            if rule.waits_for and waits_for is None:
                waits_for, told = rule.waits_for, frame if mechanism is None or rule.mechanism else told or frame
            idle |= rule.idle
    if phase is None and importing:
        phase = "import"
    return Meaning(phase, mechanism, waits_for, idle, told or placed)
