"""How planted starts are chosen and scored; the starts themselves need real engines (`make plants`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .plants import MOVING, SILENT, planned, scored, summed

PLAN = planned("sglang", "hang", 2)
STAMP = {"pid": 7, "time": 100.0, "mode": "abba"}


def output(verdict: str, culprits: tuple[int, ...] = (), said: tuple[str, ...] = ()) -> str:
    events = [{"event": "verdict", "at": 1.0, "text": "", "data": {"verdict": one}} for one in said]
    named = [{"pid": pid, "mechanism": "lock-cycle"} for pid in culprits]
    report = {"schema": "hangdoc.report/1", "verdict": verdict, "confidence": "certain", "culprits": named}
    return "\n".join(json.dumps(one) for one in (*events, report))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_number_is_the_same_start_for_ever_and_delays_are_within_their_bounds(engine: str) -> None:
    for number in range(200):
        plan = planned(engine, "harmless", number)
        assert plan == planned(engine, "harmless", number)
        low, high = (15, 40) if plan["mode"] in SILENT else (20, 120)
        assert plan["mode"] in (*SILENT, *MOVING)
        assert low <= int(plan["secs"]) <= high
        assert ("rank=" in plan["fault"]) <= (plan["tp"] == 2)
        assert planned(engine, "hang", number)["secs"] is None


@pytest.mark.parametrize(
    ("verdict", "culprits", "right", "culprit"),
    [
        ("hung", (7,), True, True),
        ("hung", (8,), True, False),
        ("hung", (7, 8), True, False),
        ("suspect", (7,), False, True),
        ("progressing", (), False, False),
    ],
)
def test_a_hang_must_be_called_and_its_process_alone_be_named(
    verdict: str, culprits: tuple[int, ...], right: bool, culprit: bool
) -> None:
    row = scored(PLAN, output(verdict, culprits), [STAMP], 130.0)
    assert (row["right"], row["culprit"], row["after_fault_s"]) == (right, culprit, 30.0)


@pytest.mark.parametrize(("verdict", "right"), [("ready", True), ("hung", False), ("slow", False)])
def test_a_harmless_start_must_become_ready(verdict: str, right: bool) -> None:
    row = scored(
        planned("vllm", "harmless", 1), output(verdict, said=("progressing", "suspect", "suspect")), [STAMP], 130.0
    )
    assert row["right"] == right
    assert row["said"] == ["progressing", "suspect"]


def test_the_sum_says_what_none_of_so_many_bounds_and_leaves_out_what_never_fired() -> None:
    plan = planned("vllm", "harmless", 1)
    rows: list[dict[str, Any]] = [scored(plan, output("ready"), [STAMP], 130.0) for _ in range(30)]
    rows.append(scored(plan, output("hung"), [], 130.0))
    text = summed(rows)
    assert "vllm harmless: 30 starts, called hung 0, ready 30" in text
    assert "0 of 30 wrong: the true rate is below 10 %" in text


LAB = """
import os
def _stamp(**facts): pass
def _rank(args, kwargs): return None
def _fire(fault, args, kwargs): os.write(1, b"fired ")
"""


def process(lab: Path, script: str) -> subprocess.Popen[str]:
    (lab / "sitecustomize.py").write_text(LAB)
    path = os.pathsep.join((str(Path(__file__).parent / "inject"), str(lab)))
    words = [sys.executable, "-c", f"import sitecustomize\nfire = sitecustomize.plants._fire\n{script}"]
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)


def test_a_delay_comes_once_and_a_hang_as_often_as_its_function_is_called(tmp_path: Path) -> None:
    delay, hang = {"at": "a:b", "mode": "lock", "secs": "1"}, {"at": "a:b", "mode": "lock"}
    calls = "\n".join(f"fire({fault}, (), {{}})" for fault in (delay, delay, hang, hang))
    with process(tmp_path, calls) as done:
        assert done.communicate()[0].split() == ["fired"] * 3


def test_a_delay_in_vfork_holds_its_process_in_state_d_and_lets_it_go_on(tmp_path: Path) -> None:
    fault = {"at": "a:b", "mode": "vfork", "secs": "1"}
    with process(tmp_path, f"fire({fault}, (), {{}})\nprint('went on')") as held:
        states = set()
        while held.poll() is None:
            states.add(Path(f"/proc/{held.pid}/stat").read_text().rpartition(")")[2].split()[0])
            time.sleep(0.02)
        assert "D" in states
        assert held.stdout is not None
        assert held.stdout.read() == "went on\n"
