"""Who has the port of the server: the server, a rank that got it from the kernel by chance, or somebody else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.report import Report
from hangdoc.model.sample import Fd, Socket
from hangdoc.rules import load
from hangdoc.rules.known import Known

from ..analysis.world import ROOT, TP1, World

_INODE, _OTHERS = 4711, 4712


def looked(holder: int | None) -> Report:
    """A start whose server could not bind, as it says; `holder` listens on its port."""
    world, diagnosis = World(), Diagnosis(ROOT, reasons=Known(load.catalogue()))
    world.log = (
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use\n"
    )
    for pid in list(world.processes):
        world.bend(pid, fds={1: Fd(1, "file", "/log")}, net_ns=5)
    if holder is not None:
        world.bend(holder, fds={9: Fd(9, "socket", f"socket:[{_INODE}]", _INODE)})
    inode = _INODE if holder is not None else _OTHERS
    world.sockets = [Socket(inode, "tcp", "LISTEN", "127.0.0.1:8000", net_ns=5)]
    for second in range(16):
        sample = world.sample(float(second))
        diagnosis.add(replace(sample, probes=(*sample.probes, "sockets")))
    return diagnosis.report("1")


@pytest.mark.parametrize(
    ("holder", "state"), [(TP1, "taken by scheduler TP1"), (None, "taken by a process outside the launch")]
)
def test_a_port_that_a_rank_has_is_as_taken_as_one_that_a_stranger_has(holder: int | None, state: str) -> None:
    report = looked(holder)
    assert [one.id for one in report.causes] == ["port-taken"]
    assert [(row.port, row.state) for row in report.ports] == [(8000, state)]


def test_a_port_that_the_server_has_is_not_taken() -> None:
    report = looked(ROOT)
    assert "port-taken" not in [one.id for one in report.causes]
    assert [(row.port, row.state) for row in report.ports] == [(8000, "LISTEN")]
