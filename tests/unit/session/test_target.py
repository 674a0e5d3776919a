"""From what a user typed to the launch that is meant."""

from __future__ import annotations

from typing import cast

import pytest

from hangdoc.hosts.channel import Channel
from hangdoc.model.sample import Process, Sample
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
