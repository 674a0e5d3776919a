"""Watch one start until it is ready, and record it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..baselines.recorder import NotGood, Recorder
from ..hosts.channel import Channel
from ..model.launch import Launch
from ..model.sample import Sample
from .look import Look, Options

TICK_S = 1.0
_END_S = 15.0  # between SIGTERM and SIGKILL of a command that was started to be recorded


def record(channel: Channel, launch: Launch, first: Sample, options: Options) -> tuple[Recorder, str]:
    """Watch the launch until it is ready; give the recorder, and "start" or "running" where it was ready before.

    Raises NotGood when it crashes, hangs or is not ready in `options.timeout_s`.
    """
    recorder = Recorder(launch.root)
    look = Look(channel, launch, first, options, recorder)
    end = time.monotonic() + options.timeout_s
    ticks = 0
    while True:
        tick = time.monotonic()
        look.tick(stacks=ticks % 3 == 2, budget_s=10.0)
        ticks += 1
        judgement = look.diagnosis.judgement()
        if judgement.verdict == "ready":
            break
        if judgement.verdict in ("crashed", "hung"):
            raise NotGood(f"it did not become ready, it {judgement.verdict}: {'; '.join(judgement.reasons)[:300]}")
        if time.monotonic() > end:
            raise NotGood(f"it was not ready after {options.timeout_s:.0f} s; --timeout allows more")
        time.sleep(max(0.05, TICK_S - (time.monotonic() - tick)))
    look.tick(stacks=False, budget_s=10.0, all_probes=True)
    return recorder, "running" if ticks <= 1 else "start"


@dataclass(frozen=True)
class Started:
    """A command that runs, and its log."""

    pid: int
    log: Path


@contextmanager
def started(words: Sequence[str]) -> Iterator[Started]:
    """Run a command with its output in a file, in a session of its own; on leaving, it and its group are ended."""
    descriptor, name = tempfile.mkstemp(prefix="hangdoc-record-", suffix=".log")
    try:
        with os.fdopen(descriptor, "wb") as log:
            try:
                process = subprocess.Popen(
                    list(words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise NotGood(f"{words[0]} cannot be started: {error.strerror}") from None
        try:
            yield Started(process.pid, Path(name))
        finally:
            _end(process)
    finally:
        Path(name).unlink(missing_ok=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to its group, then SIGKILL: the leader is our child and not yet reaped, so the number is still its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    end = time.monotonic() + _END_S
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < end:
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
