"""The whole road: a real hang, the ordinary command, the planted scheduler named."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("hangdoc.cli.diagnose") is None, reason="diagnose is not there yet"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


def _demo(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hangdoc", "demo", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "100"},
    )


def test_names_the_planted_scheduler_and_clears_up(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        out, err = demo.communicate(timeout=110)
    assert demo.returncode == 0, out + err
    assert out.startswith("HUNG")
    assert "scheduler TP1" in out
    assert "expected scheduler TP1" in err
    assert not list(tmp_path.iterdir())


def test_good_start_is_ready(tmp_path: Path) -> None:
    with _demo(tmp_path, "--good") as demo:
        out, err = demo.communicate(timeout=110)
    assert demo.returncode == 0, out + err
    assert out.startswith("READY")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with _demo(tmp_path) as demo:
        assert demo.stderr
        while "hangdoc diagnose" not in (line := demo.stderr.readline()):
            assert line, "the demo ended early"
        members = psutil.Process(demo.pid).children(recursive=True)
        assert len(members) >= 4
        demo.send_signal(number)
        demo.communicate(timeout=30)
    assert demo.returncode == 130
    _, alive = psutil.wait_procs(members, timeout=10)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    assert not list(tmp_path.iterdir())
