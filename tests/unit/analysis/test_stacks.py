"""Stacks over time (place or range) and over ranks (one tree)."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis.stacks import in_one_place, path_of, shortened, tree
from hangdoc.codec import report_json
from hangdoc.model.sample import Frame, Stack
from hangdoc.report import markdown

from .world import SITE, TP1, World, look


def stack(*functions: str, line: int = 1) -> Stack:
    """A stack of these functions, outermost first."""
    return Stack(1, frames=tuple(Frame(name, f"/x/{name}.py", f"x/{name}.py", line) for name in reversed(functions)))


def paths(*stacks: Stack) -> list[tuple[tuple[str, str], ...]]:
    """Their paths."""
    return [path_of(one) for one in stacks]


def test_a_loop_in_one_function_is_one_place() -> None:
    """Lines change, the function does not."""
    assert in_one_place(paths(stack("main", "spin", line=3), stack("main", "spin", line=4)))


def test_a_loop_with_helpers_is_one_place() -> None:
    """A helper that comes and goes below the loop is still the loop."""
    assert in_one_place(paths(stack("main", "spin"), stack("main", "spin", "ready"), stack("main", "spin", "now")))


def test_work_ranges_over_functions() -> None:
    """Stacks that differ in two frames or more are no loop."""
    assert not in_one_place(paths(stack("main", "load", "a", "b"), stack("main", "load", "c", "d")))


def test_many_leaves_are_work() -> None:
    """Four different leaves of one function are a range, not a loop."""
    assert not in_one_place(paths(*(stack("main", "build", leaf) for leaf in "abcd")))


def test_the_tree_names_present_and_absent_ranks() -> None:
    """Seven ranks in all_reduce and one elsewhere: the tree shows who is missing where."""
    stacks = [(f"TP{n}", stack("main", "forward", "all_reduce")) for n in range(3)] + [("TP3", stack("main", "load"))]
    (main,) = tree(stacks)
    assert (main.present, main.absent) == (["TP0", "TP1", "TP2", "TP3"], [])
    forward, load = main.children
    assert (forward.present, forward.absent) == (["TP0", "TP1", "TP2"], ["TP3"])
    assert (load.present, load.absent) == (["TP3"], ["TP0", "TP1", "TP2"])


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=6))
def test_every_rank_stands_at_every_frame_of_its_stack(shapes: list[list[str]]) -> None:
    """No rank is lost in the merge and none invented."""
    nodes = tree([(str(number), stack(*shape)) for number, shape in enumerate(shapes)])
    for number, shape in enumerate(shapes):
        level = nodes
        for name in shape:
            (node,) = [one for one in level if one.function == name]
            assert str(number) in node.present
            level = node.children


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4))
def test_one_stack_is_always_one_place(shape: list[str]) -> None:
    """One look tells nothing of a range."""
    assert in_one_place(paths(stack(*shape), stack(*shape)))


def test_a_stack_of_a_runaway_recursion_is_bounded_at_both_ends() -> None:
    deep = Stack(1, frames=tuple(Frame("f", "/a.py", line=line) for line in range(20_000)))
    short = shortened(deep, 1000)
    assert [frame.line for frame in short.frames] == [*range(750), *range(19_750, 20_000)]
    assert shortened(short, 1000) is short


def test_the_tree_of_a_deep_stack_can_be_written_in_every_form() -> None:
    world = World()
    world.bend(TP1, frames=tuple((f"level_{number}", f"{SITE}/sglang/srt/model.py") for number in range(20_000)))
    began = time.process_time()
    report = look(world, 3).report("1")
    assert "level_19999" in report_json(report)
    assert markdown.render(report)
    assert time.process_time() - began < 5
