"""From what a user typed to the launch that is meant."""

from __future__ import annotations

from typing import cast

import pytest

from hangdoc.hosts.channel import Channel
from hangdoc.model.sample import Process, Sample, Unseen
from hangdoc.session import target

NOBODY = cast("Channel", None)  # a PID that was named needs no further look
SCAN = Sample(
    "h",
    0.0,
    0.0,
    0.0,
    processes={
        pid: Process(pid, ppid, float(pid), "S", "python", cmdline=tuple(words.split()))
        for pid, ppid, words in (
            (3, 1, "bash"),
            (4, 3, "python /v/bin/vllm serve m"),
            (5, 3, "python -m sglang.launch_server"),
            (6, 3, "top"),
        )
    },
)


def test_a_process_above_several_launches_is_none_of_them_and_no_launch_of_its_own() -> None:
    with pytest.raises(target.SeveralLaunches) as caught:
        target.choose(NOBODY, SCAN, 3)
    assert str(caught.value) == "2 launches run below process 3"
    assert "  4    vllm" in caught.value.hint
    assert "  5    sglang" in caught.value.hint


def test_a_member_is_its_launch_and_any_other_process_an_unknown_one() -> None:
    assert target.choose(NOBODY, SCAN, 4).engine == "vllm"
    assert target.choose(NOBODY, SCAN, 6).engine == "unknown"
    with pytest.raises(target.NoLaunch, match="no process 99"):
        target.choose(NOBODY, SCAN, 99)


def test_where_no_launch_is_found_it_may_be_among_processes_that_told_nothing() -> None:
    unseen = [Unseen("scan", "failed", f"command line of python did not answer: fork: {n}", n) for n in (7, 8)]
    refused = Unseen("scan", "denied", "3 names or folders of processes that belong to others")
    for said, words in (
        ([refused], "can see"),
        ([refused, *unseen], "can see; process 7: command line of python did not answer: fork: 7, and 1 more"),
    ):
        with pytest.raises(target.NoLaunch) as caught:
            target.choose(NOBODY, Sample("h", 0.0, 0.0, 0.0, unseen=said), None)
        assert str(caught.value).endswith(words)
