"""Where ptrace is refused and READ access is not (Yama's scope 1): the demo's verdict and phase must still be right.

This kernel may have no Yama, so a stub refuses what Yama would: opening `syscall` and `mem`, and py-spy's attach.
Everything else is real: the miniature server, the agent's ticks with their children, the analysis.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from hangdoc.agent.isolate import Nursery
from hangdoc.agent.tick import Ticker
from hangdoc.codec import convert
from hangdoc.demo.stage import Stage
from hangdoc.model.ask import Ask
from hangdoc.model.report import Report
from hangdoc.model.sample import Sample
from hangdoc.probes import pyspy
from hangdoc.session import target
from hangdoc.session.look import Look, Options

REFUSED = ("syscall", "mem", "pagemap")
PYSPY = """#!/bin/sh
case "$1" in
--version) echo "py-spy 0.4.3";;
*) echo "Error: Permission Denied: Try running again with elevated permissions" >&2; exit 1;;
esac
"""


class OwnAgent:
    """A channel to an agent in this process."""

    host = "here"

    def __init__(self) -> None:
        self._ticker = Ticker(Nursery())

    def ask(self, ask: Ask) -> Sample:
        """Answer at once."""
        return convert(self._ticker.answer(ask), Sample)

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Opening what needs PTRACE_MODE_ATTACH fails in this process and in the children that it forks."""
    real = os.open

    def guarded(path: Any, *words: Any, **options: Any) -> int:
        if Path(os.fsdecode(path)).name in REFUSED:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *words, **options)

    tool = tmp_path / "py-spy"
    tool.write_text(PYSPY)
    tool.chmod(0o755)
    monkeypatch.setattr(os, "open", guarded)
    monkeypatch.setattr(pyspy, "find", lambda *_: (str(tool), "0.4.3"))


def look_at(stage: Stage) -> Report:
    """One whole look."""
    channel = OwnAgent()
    first = target.scan(channel)
    look = Look(channel, target.choose(channel, first, stage.pid), first, Options())
    for _ in look.run():
        pass
    return look.diagnosis.report("0")


def test_the_hang_is_suspected_in_its_phase(refused: None) -> None:
    """Without system calls, lock owners and stacks the hang cannot be certain, but it is neither healthy nor a guess."""
    with Stage(hang=True) as stage:
        stage.wait()
        report = look_at(stage)
    assert (report.verdict, report.confidence) == ("suspect", "hint")
    assert report.phase is not None
    assert report.phase.id in ("weight-load", "post-load")
    assert [one.role for one in report.culprits][:1] == ["scheduler"]
    denied = {one.probe for one in report.unseen if one.reason == "denied"}
    assert {"threads", "stacks"} <= denied
    assert report.stacks == []


def test_a_good_start_is_ready_all_the_same(refused: None) -> None:
    """The health path needs no rights."""
    with Stage(hang=False) as stage:
        stage.wait()
        assert look_at(stage).verdict == "ready"
