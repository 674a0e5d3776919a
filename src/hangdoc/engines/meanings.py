"""What a Python stack means: the phase, what the thread waits for, and on whom. Pure.

Each question is answered by the innermost frame that has an answer. So a wrapper, a decorator or a profiler between two
frames changes nothing, and `Scheduler.__init__` says "engine-init" only until something further in says more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import msgspec

from ..model.sample import Frame, Stack
from ..model.words import Mechanism, Phase
from .load import common, merged_frames
from .profile import FrameRule, Profile

# How many frames further out a firm mechanism may be, to say more than plumbing does (Queue.get over Condition.wait).
_PLUMBING = 6
_STANDARD = re.compile(r"/lib(?:64)?/python3(?:\.\d+)?/(?!site-packages)|/pypy3|(?:^|/)python3\d+\.zip/")
_NEAR = 3


class Meaning(msgspec.Struct, frozen=True):
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


_CACHE: dict[int, tuple[Profile, _Rules]] = {}


def _rules(profile: Profile) -> _Rules:
    # By identity: hashing hundreds of rules for each stack would cost more than the stack.
    known = _CACHE.get(id(profile))
    if known is None or known[0] is not profile:
        known = profile, _Rules(merged_frames(profile))
        _CACHE[id(profile)] = known
    return known[1]


def _applies(rule: FrameRule, at: int, frames: Sequence[Frame]) -> bool:
    if rule.leaf and at != 0:
        return False
    outer = frames[at + 1 : at + 1 + _NEAR] if rule.near else frames[at + 1 :]
    return not rule.under or any(
        frame.function == name or frame.function.endswith("." + name) for frame in outer for name in rule.under
    )


class _Answer:
    """The answer to one question, heard frame by frame from the innermost outwards."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.at: int | None = None
        self._weak_since: int | None = None

    def hear(self, text: str | None, at: int, *, weak: bool) -> None:
        """Take the first answer; one of plumbing gives way to a later one that is not far."""
        if text is None:
            return
        if self.text is None:
            self._weak_since = at if weak else None
        elif self._weak_since is None or not 0 < at - self._weak_since <= _PLUMBING:
            return
        elif not weak:
            self._weak_since = None
        self.text, self.at = text, at


def _says_wait(rule: FrameRule) -> bool:
    return rule.mechanism is not None or rule.waits_for is not None or rule.idle


def _hides_nothing(frame: Frame, engine: str) -> bool:
    """Whether a frame is of the standard library, of the engine, or of a package known to explain nothing by itself."""
    path = frame.file or frame.short
    if path.startswith("<"):
        return True
    _, below, inside = path.rpartition("/site-packages/")
    if below:
        package = inside.partition("/")[0].removesuffix(".py")
        return package == engine or package in common().libraries
    return "/dist-packages/" not in path and _STANDARD.search(path) is not None


def in_the_wait(frames: Sequence[Frame], first: int, engine: str) -> bool:
    """Whether a thread is really in the wait that frame `first` tells of, and not in other code that it called from there.

    A hook, a patch or a model's own code below `recv_requests` is where the thread is, whatever stands further out.
    """
    return all(_hides_nothing(frame, engine) for frame in frames[:first])


def foreign(stack: Stack, profile: Profile, *, beyond: int = 0) -> bool:
    """Whether code that is neither the engine's nor of a known library is on a stack: a hook, a patch, a model's own.

    The outermost `beyond` frames are left out.
    """
    return not all(_hides_nothing(frame, profile.engine) for frame in stack.frames[: len(stack.frames) - beyond])


def meaning(stack: Stack, profile: Profile) -> Meaning:
    """What a stack says about its thread's phase and wait. Frames come innermost first, as py-spy gives them.

    "import" counts only when no frame says another phase: a lazy import happens in every phase. A wait counts only when
    nothing but libraries and the engine stands between its frame and the innermost one.
    """
    rules = _rules(profile)
    frames = stack.frames
    phase: Phase | None = None
    placed: Frame | None = None
    importing = idle = False
    mechanism, waits_for = _Answer(), _Answer()
    waits: bool | None = None  # None until a frame tells of a wait
    for at, frame in enumerate(frames):
        for rule in rules.of(frame):
            if not _applies(rule, at, frames):
                continue
            if rule.phase == "import":  # what is further in only runs because a module is imported
                importing, phase, placed = True, None, None
            elif phase is None and rule.phase:
                phase, placed = rule.phase, frame
            if waits is None and _says_wait(rule):
                waits = in_the_wait(frames, at, profile.engine)
            if not waits:
                continue
            mechanism.hear(rule.mechanism, at, weak=rule.weak)
            waits_for.hear(rule.waits_for, at, weak=rule.weak)
            idle |= rule.idle
    if phase is None and importing:
        phase = "import"
    told = waits_for.at if waits_for.at is not None else mechanism.at
    return Meaning(
        phase,
        cast("Mechanism | None", mechanism.text),
        waits_for.text,
        idle,
        placed if told is None else frames[told],
    )
