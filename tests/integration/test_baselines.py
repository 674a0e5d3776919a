"""Good starts of the miniature server: recorded while they happen, merged, and held against one that hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hangdoc.baselines import store
from hangdoc.demo.stage import Stage

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
HANGDOC = (sys.executable, "-m", "hangdoc")


def call(data: Path, *words: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """Run hangdoc with a data folder of its own."""
    environment = {**os.environ, "XDG_DATA_HOME": str(data), "COLUMNS": "100"}
    return subprocess.run(
        [*HANGDOC, *words], capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )


def last_object(text: str) -> Any:
    return json.loads(text.strip().splitlines()[-1])


@pytest.mark.slow
def test_a_start_below_a_wrapper_that_is_no_shell_is_recorded(tmp_path: Path) -> None:
    script = """import time; time.sleep(3)  # first it is nothing known
from hangdoc.demo.stage import Stage
with Stage(hang=False): time.sleep(60)"""
    done = call(tmp_path, "record-baseline", "x", "--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    (run,) = store.read(tmp_path / "hangdoc" / "baselines" / "x.yaml").runs
    assert (run.by, run.ready_s is not None) == ("start", True)


@pytest.mark.slow
def test_starts_are_recorded_merged_and_compared_with(tmp_path: Path) -> None:
    case = tmp_path / "good.case"
    with Stage(hang=False) as good:
        done = call(tmp_path, "record-baseline", "mini", str(good.pid))
        assert done.returncode == 0, done.stderr
        again = call(tmp_path, "diagnose", str(good.pid), "--json", "--save", str(case))
        assert last_object(again.stdout)["verdict"] == "ready"
        late = call(tmp_path, "record-baseline", str(tmp_path / "late.yaml"), str(good.pid))
        assert late.returncode == 0, late.stderr
    (run,) = store.read(tmp_path / "late.yaml").runs
    assert (run.by, run.partial, run.ready_s is not None) == ("running", True, True)
    path = tmp_path / "hangdoc" / "baselines" / "mini.yaml"
    one = store.read(path)
    assert [run.by for run in one.runs] == ["start"]
    assert one.runs[0].ready_s is not None
    assert {"weight-load", "warmup"} <= {row.id for row in one.phases}
    assert str(tmp_path) not in path.read_text()

    done = call(tmp_path, "record-baseline", "mini", str(case))
    assert done.returncode == 0, done.stderr
    both = store.read(path)
    assert [run.by for run in both.runs] == ["start", "case"]

    with Stage(hang=True) as hung:
        hung.wait()
        refused = call(tmp_path, "record-baseline", "other", str(hung.pid), "--timeout", "20")
        assert refused.returncode == 2
        assert "not recorded: it did not become ready" in refused.stderr
        found = last_object(call(tmp_path, "diagnose", str(hung.pid), "--json").stdout)
    assert found["verdict"] == "hung"
    assert found["baseline"]["name"] == "mini"
    assert found["baseline"]["runs"] == 2
    assert found["baseline"]["overdue_line"]
    assert not (tmp_path / "hangdoc" / "baselines" / "other.yaml").exists()


def test_a_command_is_recorded_and_ended_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    done = call(
        tmp_path, "record-baseline", "x", "--timeout", "3", "--", sys.executable, "-c", "import time; time.sleep(60)"
    )
    assert done.returncode == 2
    assert "not recorded" in done.stderr
    done = call(tmp_path, "record-baseline", "x", "--", str(tmp_path / "no-such-program"))
    assert done.returncode == 2
    assert "cannot be started" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("record-baseline", "../x", "--from-log", "y"), "no name for a baseline"),
        (("record-baseline", "x", "--from-log", "no-such.log"), "cannot be read"),
        (("record-baseline", "x", "no-such.case"), "neither a PID, a host nor a file"),
        (("record-baseline", "x", "--"), "no command after --"),
        (("baselines", "show", "nobody"), "there is no baseline"),
        (("baselines", "compare", "one"), "takes 2 names"),
        (("diagnose", "--baseline", "nobody"), "there is no baseline"),
        (("diagnose", "--baseline", "/no/such.yaml"), "no such file"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = call(tmp_path, *words)
    assert done.returncode in (2, 4)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_on_record_is_listed_shown_and_compared(tmp_path: Path) -> None:
    log = Path(__file__).parents[1] / "data" / "engines" / "vllm-0.25.1-h200.log"
    assert call(tmp_path, "record-baseline", "h200", "--from-log", str(log)).returncode == 0
    assert "h200  vllm 0.25.1" in call(tmp_path, "baselines", "list").stdout
    assert "graph-capture" in call(tmp_path, "baselines", "show", "h200").stdout
    text = call(tmp_path, "baselines", "compare", "h200", "vllm-qwen3.6-35b-a3b-nvfp4-rtx-5090").stdout
    assert "model nvidia/Qwen3.6-35B-A3B-NVFP4 here, tiny then: durations say nothing" in text


def test_one_that_cannot_be_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "hangdoc" / "baselines"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text("schema: hangdoc.baseline/9\n")
    done = call(tmp_path, "baselines", "list")
    assert done.returncode == 0
    assert "bad  cannot be used" in done.stdout
    assert "newer hangdoc" in done.stdout
