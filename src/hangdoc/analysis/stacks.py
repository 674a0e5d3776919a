"""Python stacks compared: over time (one place, or a range of work) and over ranks (one tree)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model.frozen import replace
from ..model.report import StackNode
from ..model.sample import Frame, Stack

Path = tuple[tuple[str, str], ...]
STACK_FRAMES = 1024  # of one stack that are looked at; more is a runaway recursion
_TREE_FRAMES = 160  # of one stack in the merged tree, whose readers (JSON, Markdown) go down it by recursion


def shortened(stack: Stack, limit: int) -> Stack:
    """The stack with at most `limit` frames: three quarters from the innermost outwards, the rest from the outermost."""
    if len(stack.frames) <= limit:
        return stack
    outer = limit // 4
    return replace(stack, frames=stack.frames[: limit - outer] + stack.frames[-outer:])


def path_of(stack: Stack) -> Path:
    """Functions of a stack, outermost first, without line numbers: a loop changes lines, not functions."""
    return tuple((frame.file, frame.function) for frame in reversed(stack.frames))


def shared_length(paths: Sequence[Path]) -> int:
    """How many outermost frames all paths have in common."""
    shared = 0
    for together in zip(*paths, strict=False):
        if len(set(together)) > 1:
            break
        shared += 1
    return shared


def in_one_place(paths: Sequence[Path]) -> bool:
    """Whether looks at one thread show one place: the same outer frames and leaves of one function (DESIGN's busy-loop).

    A loop body's helper comes and goes as one further frame; work that ranges over different functions differs in two
    or more frames, or in three leaves.
    """
    different = set(paths)
    if len(different) < 2:
        return True
    shared = shared_length(list(different))
    rests = {path[shared:] for path in different}
    return all(len(rest) <= 1 for rest in rests) and len(rests) < 4


class _Node(msgspec.Struct):
    frame: Frame
    present: list[str] = []
    children: dict[tuple[str, str], _Node] = {}


def tree(stacks: Sequence[tuple[str, Stack]]) -> list[StackNode]:
    """Stacks of several ranks merged from the outermost frame in: each frame with the ranks in it and those not.

    `stacks` are (label, stack) pairs; `absent` lists the labels that share the parent frame but not this one.
    """
    root = _Node(Frame("", ""))
    for label, stack in stacks:
        node = root
        node.present.append(label)
        for frame in reversed(shortened(stack, _TREE_FRAMES).frames):
            node = node.children.setdefault((frame.file, frame.function), _Node(frame))
            node.present.append(label)
    return _rows(root)


def _rows(node: _Node) -> list[StackNode]:
    among = {name: set(child.present) for name, child in node.children.items()}
    return [
        StackNode(
            function=child.frame.function,
            file=child.frame.short or child.frame.file,
            line=child.frame.line,
            present=child.present,
            absent=[label for label in node.present if label not in among[name]],
            children=_rows(child),
        )
        for name, child in node.children.items()
    ]
