"""A run from the log of a real past start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hangdoc.baselines.fromlog import baseline_of_log
from hangdoc.baselines.recorder import NotGood

DATA = Path(__file__).parents[2] / "data" / "engines"
VLLM, SGLANG = DATA / "vllm-0.25.1-h200.log", DATA / "sglang-0.5.23-cpu-tp2.log"


def phases(path: Path) -> dict[str, float | None]:
    return {row.id: row.duration_s[0] for row in baseline_of_log(path, "x").phases}


def test_a_vllm_log_gives_version_arguments_and_phases() -> None:
    found = baseline_of_log(VLLM, "x")
    assert (found.configuration.engine, found.configuration.version) == ("vllm", "0.25.1")
    assert found.configuration.args == {"gpu-memory-utilization": "0.2", "max-model-len": "1024"}
    assert found.runs[0].ready_s == 54.0
    assert found.runs[0].partial
    assert phases(VLLM)["compile"] == 12.0


def test_a_sglang_log_gives_ranks_their_own_times() -> None:
    row = next(one for one in baseline_of_log(SGLANG, "x").phases if one.id == "weight-load")
    assert {"scheduler TP0", "scheduler TP1"} <= set(row.dwell_s)


def test_when_the_file_was_copied_does_not_matter(tmp_path: Path) -> None:
    copy = tmp_path / "copy.log"
    copy.write_bytes(SGLANG.read_bytes())
    before = baseline_of_log(copy, "x").phases
    os.utime(copy, (1_800_000_000, 1_800_000_000))
    assert baseline_of_log(copy, "x").phases == before


def test_of_two_launches_in_one_log_the_last_counts(tmp_path: Path) -> None:
    both = tmp_path / "both.log"
    both.write_text(SGLANG.read_text() + SGLANG.read_text().replace("2026-11-29 16:3", "2026-11-29 18:3"))
    found = baseline_of_log(both, "x")
    assert "1 earlier start" in found.provenance.note
    assert found.runs[0].ready_s is not None
    assert found.runs[0].ready_s < 60


def test_a_start_that_did_not_become_ready_is_refused(tmp_path: Path) -> None:
    cut = tmp_path / "cut.log"
    cut.write_text("".join(SGLANG.read_text().splitlines(keepends=True)[:-3]))
    with pytest.raises(NotGood, match="did not become ready"):
        baseline_of_log(cut, "x")


@pytest.mark.parametrize("text", ["", "hello\n", "a\n" * 1000, "\x00\xff\n"])
def test_what_is_no_start_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(text)
    with pytest.raises(NotGood, match="no start"):
        baseline_of_log(path, "x")


def test_a_log_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(
        "Load weight begin.\nLoad weight end.\nKV Cache is allocated.\nThe server is fired up and ready to roll!\n"
    )
    with pytest.raises(NotGood, match="carries a time"):
        baseline_of_log(path, "x")
