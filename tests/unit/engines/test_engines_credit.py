"""Lines credited to members."""

from __future__ import annotations

import pytest

from hangdoc.engines.credit import member_of
from hangdoc.engines.lines import reader
from hangdoc.engines.load import profiles
from hangdoc.model.launch import Launch, Member, Rank


def launch(engine: str, *members: Member) -> Launch:
    return Launch("h", 1, engine, members={one.pid: one for one in members})


TP2 = launch(
    "sglang",
    Member(1, 0.0, "launcher"),
    Member(2, 1.0, "scheduler", Rank(tp=0, world=0)),
    Member(3, 1.0, "scheduler", Rank(tp=1, world=1)),
    Member(4, 1.0, "detokenizer"),
)
TP1 = launch("sglang", Member(1, 0.0, "launcher"), Member(2, 1.0, "scheduler"), Member(4, 1.0, "detokenizer"))
VLLM = launch(
    "vllm",
    Member(1, 0.0, "api-server"),
    Member(2, 1.0, "engine-core"),
    Member(3, 2.0, "worker", Rank(tp=0, world=0)),
    Member(4, 2.0, "worker", Rank(tp=1, world=1)),
)
VLLM_TP1 = launch("vllm", Member(1, 0.0, "api-server"), Member(2, 1.0, "engine-core"))
BAR = "Loading safetensors checkpoint shards:  57% Completed | 4/7 [00:00<00:00, 33.67it/s]"


@pytest.mark.parametrize(
    ("found", "line", "pid"),
    [
        (TP2, "[2026-11-29 16:31:21 TP1] Load weight begin. avail mem=18.16 GB", 3),
        (TP2, "[2026-11-29 16:31:21] Engine startup timings (s): load_weight=0.11", 1),
        (TP2, "[2026-11-29 16:31:21] anything", None),
        (TP2, "[rank1]:W1129 16:31:26.537000 x", 3),
        (TP2, BAR, 2),
        (TP1, "[2026-11-29 16:31:21] Load weight begin. avail mem=18.16 GB", 2),
        (TP1, "[2026-11-29 16:31:21] The server is fired up and ready to roll!", 1),
        (VLLM, "(Worker_TP1 pid=4) INFO 11-29 14:03:12 [x.py:1] anything", 4),
        (VLLM, "(Worker_TP1 pid=77) INFO 11-29 14:03:12 [x.py:1] anything", 4),
        (VLLM, "(VllmWorker rank=1 pid=77) INFO 11-29 14:03:12 [x.py:1] anything", 4),
        (VLLM, "(EngineCore_DP0 pid=77) INFO 11-29 14:03:12 [x.py:1] anything", 2),
        (VLLM, "(APIServer pid=12) anything", 3),  # 12 is the worker's number in its own namespace
        (VLLM, BAR, 3),
        (VLLM, "INFO:     Started server process [1]", 1),
        (VLLM_TP1, BAR, 2),
        (VLLM_TP1, "INFO 11-29 14:03:12 [x.py:1] Loading weights took 0.17 seconds", 2),
        (VLLM_TP1, "anything", None),
    ],
)
def test_member_of(found: Launch, line: str, pid: int | None) -> None:
    read = reader(profiles()[found.engine]).read(line)
    assert member_of(read, found, {12: 3}) == pid
