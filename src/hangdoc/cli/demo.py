"""`hangdoc demo`: a miniature server that really hangs, and its diagnosis by the ordinary command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import msgspec
import typer

from .. import codec
from ..demo.stage import Stage, StageError
from ..model.report import Report
from . import exits, screen

_DIAGNOSIS_S = 120.0
_KEEP_S = 600.0


def command(
    good: Annotated[bool, typer.Option("--good", help="Let it start well instead.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running until Ctrl-C, at most 10 minutes.")] = False,
) -> int:
    """Start a miniature SGLang of real processes, of which one dead-locks after its weights, and diagnose it.

    Exit status 0 when the diagnosis named the scheduler that was planted (with --good: when it said ready),
    3 when it did not.
    """
    if not Path("/proc/self/stat").exists():
        raise exits.Stop("the demo needs Linux: this system has no /proc")
    signal.signal(signal.SIGTERM, _leave)
    fate = "starts well" if good else "dead-locks in one scheduler after its weights"
    screen.note(f"starting a miniature SGLang that {fate} …")
    try:
        with Stage(hang=not good) as stage:
            stage.wait()
            screen.note(f"$ hangdoc diagnose --pid {stage.pid}")
            report = diagnose(stage.pid)
            screen.show(report)
            right = report.verdict == "ready" if good else names(report, stage.planted)
            screen.note(_conclusion(stage, good=good, right=right))
            if keep:
                _keep(stage)
    except StageError as error:
        raise exits.Stop(str(error), status=exits.UNDECIDED) from error
    return exits.OK if right else exits.UNDECIDED


def diagnose(pid: int) -> Report:
    """Run the ordinary command in a process of its own. Raises Stop when it gives no report."""
    words = [sys.executable, "-m", "hangdoc", "diagnose", "--pid", str(pid), "--json"]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=_DIAGNOSIS_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise exits.Stop(f"diagnose did not end within {_DIAGNOSIS_S:.0f} s", status=exits.INTERNAL) from error
    try:
        return codec.report_from_plain(json.loads(done.stdout))
    except (ValueError, msgspec.ValidationError) as error:
        raise exits.Stop(f"diagnose gave no report (status {done.returncode})", status=exits.INTERNAL) from error


def names(report: Report, pid: int | None) -> bool:
    """Whether a report says that this process, and no other, is what everything waits for."""
    return report.verdict in {"hung", "suspect"} and {one.pid for one in report.culprits} == {pid}


def _conclusion(stage: Stage, *, good: bool, right: bool) -> str:
    expected = "ready" if good else f"scheduler TP1, PID {stage.planted}, as the culprit"
    return f"the demo expected {expected}: {'right' if right else 'the diagnosis MISSED it'}"


def _keep(stage: Stage) -> None:
    screen.note(f"it stays for {_KEEP_S / 60:.0f} min or until Ctrl-C; its log is {stage.log}")
    screen.note(f"try: hangdoc diagnose --pid {stage.pid} -v")
    try:
        threading.Event().wait(_KEEP_S)
    except KeyboardInterrupt:
        screen.note("ended")


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # so that the miniature is cleared up as after Ctrl-C
