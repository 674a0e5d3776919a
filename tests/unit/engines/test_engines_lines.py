"""Log lines, on logs of real starts and on made-up ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.engines.lines import (
    LINE_BOUND,
    NOBODY,
    Bar,
    Writer,
    is_chatter,
    is_fatal,
    mark_of,
    progress_of,
    reader,
    split,
    timestamp,
    tracebacks,
    whole,
    writer,
)
from hangdoc.engines.load import profiles
from hangdoc.engines.phases import later, order, ordinal
from hangdoc.model.launch import Launch, Rank
from hangdoc.model.words import Phase

DATA = Path(__file__).parents[2] / "data" / "engines"
VLLM, SGLANG = profiles()["vllm"], profiles()["sglang"]


def lines_of(name: str) -> list[str]:
    return split((DATA / name).read_bytes().decode())


@given(st.text(alphabet=st.characters(exclude_characters="\x1b"), max_size=300))
def test_splitting_loses_nothing_but_line_ends(text: str) -> None:
    assert "".join(split(text)) == text.replace("\r", "").replace("\n", "")


@given(st.text(alphabet="a\x1b[]m;0\x07\\\r\n", max_size=60))
def test_no_escape_sequence_is_too_strange(text: str) -> None:
    assert not any("\r" in line or "\n" in line for line in split(text))


def test_carriage_returns_end_lines_and_colours_go() -> None:
    assert split("a 0%\ra 50%\r\n\x1b[36mb\x1b[0m\n\nc") == ["a 0%", "a 50%", "b", "", "c"]
    assert split("") == []
    assert split("x" * 3 * LINE_BOUND) == ["x" * LINE_BOUND]


@pytest.mark.parametrize(
    ("line", "who", "message"),
    [
        ("(APIServer pid=7) INFO 11-29 14:03:12 [a_b.py:12] hello", Writer("api-server", pid=7), "hello"),
        ("(EngineCore_DP1 pid=7) hello", Writer("engine-core", Rank(dp=1), 7), "hello"),
        ("(Worker_PP1_TP3 pid=7) ERROR 11-29 14:03:12 [x.py:1] no", Writer("worker", Rank(pp=1, tp=3), 7), "no"),
        ("(VllmWorker rank=1 pid=7) INFO x", Writer("worker", Rank(world=1), 7), "x"),
        ("INFO:     Started", NOBODY, "Started"),
        ("Loading shards", NOBODY, "Loading shards"),
        ("(not a prefix) x", NOBODY, "(not a prefix) x"),
        ("(APIServer pid=7", NOBODY, "(APIServer pid=7"),
    ],
)
def test_writers_of_vllm(line: str, who: Writer, message: str) -> None:
    assert writer(line, VLLM) == (who, message)


@pytest.mark.parametrize(
    ("line", "who", "message"),
    [
        ("[2026-11-29 16:31:21 TP1] hello", Writer("scheduler", Rank(tp=1)), "hello"),
        ("[2026-11-29 16:31:21 DP2 TP1 EP1] hello", Writer("scheduler", Rank(dp=2, tp=1, ep=1)), "hello"),
        ("[2026-11-29 16:31:21 PP0 TP1] hello", Writer("scheduler", Rank(pp=0, tp=1)), "hello"),
        ("[2026-11-29 16:31:21] INFO:     hello", NOBODY, "hello"),  # the launcher, or the only scheduler
        ("[rank3]:W1129 16:31", Writer("scheduler", Rank(world=3)), "W1129 16:31"),
        ("[W1129 socket.cpp:207] x", NOBODY, "[W1129 socket.cpp:207] x"),
    ],
)
def test_writers_of_sglang(line: str, who: Writer, message: str) -> None:
    assert writer(line, SGLANG) == (who, message)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[1970-01-02 00:00:01 TP0] x", 86401.0),
        ("INFO 01-02 00:00:01 [x.py:1] y", 86401.0),
        ("(Worker pid=1) INFO 01-01 00:01:00 [x.py:1] y", 60.0),
        ("INFO 13-41 00:00:01 x", None),
        ("no time", None),
    ],
)
def test_timestamp(line: str, seconds: float | None) -> None:
    assert timestamp(line) == seconds


@pytest.mark.parametrize(
    ("line", "bar"),
    [
        ("Loading safetensors checkpoint shards:  57% Completed | 4/7 [00:00<00:00, 33.67it/s]", Bar(4, 7)),
        ("Capturing:   0%|  | 0/51 [00:00<?, ?it/s]Capturing:  12%|█▏  | 6/51 [00:00<00:00, 55it/s]", Bar(6, 51)),
        ("Capturing batches (bs=8 avail_mem=1.05 GB):  30%|███       | 7/23", Bar(7, 23)),
        ("12% of 3/4 [sic", Bar(3, 4)),
        ("9% | 9/7 [00:00", None),
        ("1/2 [no percentage", None),
        ("0% | 0/0 [00:00", None),
    ],
)
def test_progress(line: str, bar: Bar | None) -> None:
    assert progress_of(line) == bar


def walk(name: str, engine: str, version: str, args: dict[str, str]) -> list[Phase]:
    """The furthest phase of the start after each line that is a mark."""
    profile = profiles()[engine]
    phases = order(profile, Launch("h", 1, engine, args=args))
    furthest: list[Phase] = []
    for line in lines_of(name):
        mark = mark_of(line, profile, version)
        if mark:
            now = later(phases, mark.phase, furthest[-1] if furthest else None)
            assert now
            furthest.append(now)
    assert [ordinal(phases, one) for one in furthest] == sorted(ordinal(phases, one) for one in furthest)
    return list(dict.fromkeys(furthest))


def test_a_cuda_start_of_vllm_goes_through_its_phases() -> None:
    assert walk("vllm-0.25.1-h200.log", "vllm", "0.25.1", {}) == [
        "config",
        "engine-spawn",
        "engine-init",
        "distributed-init",
        "model-init",
        "weight-load",
        "post-load",
        "memory-profile",
        "compile",
        "kv-cache",
        "kernel-warmup",
        "graph-capture",
        "frontend-init",
        "http-listen",
        "ready",
    ]


def test_a_cpu_start_of_vllm_goes_through_its_phases() -> None:
    assert walk("vllm-0.32-cpu-tp2.log", "vllm", "0.32.0", {"enforce-eager": ""}) == [
        "config",
        "engine-spawn",
        "engine-init",
        "distributed-init",
        "model-init",
        "weight-load",
        "post-load",
        "kv-cache",
        "frontend-init",
        "http-listen",
        "ready",
    ]


def test_a_start_of_sglang_goes_through_its_phases() -> None:
    assert walk("sglang-0.5.23-cpu-tp2.log", "sglang", "0.5.23", {"device": "cpu"}) == [
        "engine-spawn",
        "distributed-init",
        "weight-load",
        "post-load",
        "memory-profile",
        "kv-cache",
        "kernel-warmup",
        "warmup",
        "ready",
    ]


def test_marks_of_every_rank_are_printed_by_every_rank() -> None:
    seen: dict[str, set[int | None]] = {}
    for line in lines_of("sglang-0.5.23-cpu-tp2.log"):
        mark = mark_of(line, SGLANG, "0.5.23")
        if mark and mark.every_rank:
            seen.setdefault(mark.match, set()).add(writer(line, SGLANG)[0].rank.tp)
    assert len(seen) == 8
    assert all(ranks == {0, 1} for ranks in seen.values())


def test_a_mark_holds_only_for_its_writers() -> None:
    assert mark_of("(APIServer pid=1) INFO:     Application startup complete.", VLLM)
    assert mark_of("INFO:     Application startup complete.", VLLM)
    assert mark_of("(Worker_TP0 pid=1) INFO:     Application startup complete.", VLLM) is None


def test_a_mark_holds_only_for_its_versions() -> None:
    line = "INFO 01-01 00:00:00 [config.py:1] This model supports multiple tasks: {'generate'}"
    assert mark_of(line, VLLM, "0.8.5")
    assert mark_of(line, VLLM, "0.25.1") is None


@pytest.mark.parametrize(
    ("line", "profile"),
    [
        ("INFO [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds.", VLLM),
        (
            "(APIServer pid=1) DEBUG 11-29 14:02:51 Waiting for 1 local, 0 remote core engine proc(s) to start",
            VLLM,
        ),
        ("[2026-11-29 16:31:21 TP1] Gated launch (still waiting)", SGLANG),
        ("[aiter] waiting for baton release at /x/lock", SGLANG),
    ],
)
def test_chatter(line: str, profile: object) -> None:
    assert is_chatter(line, profile)  # type: ignore[arg-type]


def test_a_good_start_has_neither_chatter_nor_an_end() -> None:
    for name, profile in (
        ("vllm-0.25.1-h200.log", VLLM),
        ("vllm-0.32-cpu-tp2.log", VLLM),
        ("sglang-0.5.23-cpu-tp2.log", SGLANG),
    ):
        assert [line for line in lines_of(name) if is_fatal(line, profile)] == []
        assert [line for line in lines_of(name) if is_chatter(line, profile) and "GET /health" not in line] == []


@pytest.mark.parametrize(
    ("line", "profile"),
    [
        ("(EngineCore pid=1) ERROR 11-29 14:02:51 [core.py:1] EngineCore failed to start.", VLLM),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", VLLM),
        ("[2026-11-29 16:31:21] Rank 1 scheduler died during initialization (exit code: -9).", SGLANG),
        ("[2026-11-29 16:31:21 TP1] Scheduler hit an exception: Traceback (most recent call last):", SGLANG),
    ],
)
def test_fatal(line: str, profile: object) -> None:
    assert is_fatal(line, profile)  # type: ignore[arg-type]


def test_read_says_all_at_once() -> None:
    line = "(EngineCore pid=5) Loading safetensors checkpoint shards: 100% Completed | 7/7 [00:00<00:00, 41.46it/s]"
    found = reader(VLLM).read(line)
    assert found.writer == Writer("engine-core", pid=5)
    assert found.mark
    assert found.mark.phase == "post-load"
    assert found.bar == Bar(7, 7)
    assert not found.chatter
    assert not found.fatal


TWO = """\
(Worker_TP1 pid=11) ERROR 11-29 14:02:51 [x.py:1] WorkerProc failed to start.
(Worker_TP1 pid=11) ERROR 11-29 14:02:51 [x.py:1] Traceback (most recent call last):
(Worker_TP1 pid=11) ERROR 11-29 14:02:51 [x.py:1]   File "a.py", line 1, in load
(Worker_TP0 pid=10) INFO 11-29 14:02:51 [y.py:1] something else
(Worker_TP1 pid=11) ERROR 11-29 14:02:51 [x.py:1]     f()
(Worker_TP1 pid=11) ERROR 11-29 14:02:51 [x.py:1] ValueError: no such weight
Traceback (most recent call last):
  File "b.py", line 2, in main
    raise RuntimeError("x")
RuntimeError: Engine core initialization failed
after
""".splitlines()


def test_tracebacks_in_order_with_their_writers() -> None:
    found = tracebacks(TWO, VLLM)
    assert [(one.writer.rank.tp, one.exception, one.start, one.end) for one in found] == [
        (1, "ValueError: no such weight", 1, 6),
        (None, "RuntimeError: Engine core initialization failed", 6, 10),
    ]


def test_a_traceback_cut_off_names_no_exception() -> None:
    found = tracebacks(TWO[6:8], VLLM)
    assert [(one.exception, one.start, one.end) for one in found] == [("", 0, 2)]


@given(st.lists(st.sampled_from(TWO) | st.text(max_size=20), max_size=30))
def test_tracebacks_stay_inside_the_text(lines: list[str]) -> None:
    for one in tracebacks(lines, VLLM):
        assert 0 <= one.start < one.end <= len(lines)


def test_what_another_process_wrote_behind_a_bar_is_a_line_of_its_own() -> None:
    bar = "Loading shards: 100% Completed | 7/7 [00:00<00:00, 139.12it/s]"
    line = "[2026-11-29 16:31:22 TP1] Load weight end. elapsed=0.09 s"
    assert split(f"{bar}{line}\n") == [bar, line]
    slow = bar.replace("139.12it/s", "4.88s/it")
    assert split(f"{slow}(Worker_TP1 pid=7) INFO x\n{bar}\n") == [slow, "(Worker_TP1 pid=7) INFO x", bar]


def test_a_bar_that_is_drawn_is_whole_before_its_next_step() -> None:
    bar = "Loading shards:  50% Completed | 2/4 [00:10<00:10, 5.0s/it]"
    assert whole(f"a\n\r{bar}") == len(bar) + 3
    assert whole(bar) == len(bar)
    for begun in (bar[:-1], "x 2/4", "[2026-11-29 16:31:22 TP1", f"{bar}[2026-11-29"):
        assert whole(f"a\r{begun}") == 2


@given(st.text(alphabet="a1/[]<%\r\n ", max_size=200))
def test_what_is_whole_ends_a_line_or_a_bar(text: str) -> None:
    end = whole(text)
    assert end in (0, len(text)) or text[end - 1] in "\r\n"
    assert not {"\r", "\n"} & set(text[end:])
