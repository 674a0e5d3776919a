"""Whose fact it is, where a launch runs on several hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangdoc.model.places import packed
from hangdoc.model.sample import KernelLine, Unseen
from hangdoc.rules.gather import Looked
from hangdoc.rules.known import gathered
from hangdoc.rules.values import Missing, Seen, Value

from ..analysis.two_hosts import Pair, look
from ..analysis.world import FACTS, ROOT

_XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, GPU has fallen off the bus."


def of_hosts(pair: Pair, fact: str, root: int = ROOT) -> dict[str, Value]:
    """A fact of each host that was read, by the host."""
    diagnosis = look(pair, root=root)
    view = diagnosis.view()
    assert view is not None
    world = gathered(Looked(view, diagnosis.pictures(), [], diagnosis.judgement()))
    return {one.label: one.get(fact) for one in world.hosts}


@pytest.mark.parametrize("first_is_lost", [False, True])
def test_a_fact_of_the_second_host_is_told_of_it_and_of_no_other(first_is_lost: bool) -> None:
    pair = Pair()
    pair.nodes[1].facts = replace(FACTS, kernel_log=(KernelLine(5.0, "xid", _XID),))
    if first_is_lost:
        pair.down[0] = 0.0
    told = of_hosts(pair, "kernel_xid", packed(1, ROOT) if first_is_lost else ROOT)
    none = {} if first_is_lost else {"host gpu01": Seen(())}
    assert told == {**none, "host gpu02": Seen((_XID,))}


def test_what_one_host_did_not_let_be_seen_leaves_nothing_open_of_another() -> None:
    pair = Pair()
    pair.nodes[0].unseen = [Unseen("host", "denied", "kernel log: not permitted")]
    told = of_hosts(pair, "kernel_xid")
    assert isinstance(told["host gpu01"], Missing)
    assert told["host gpu02"] == Seen(())
