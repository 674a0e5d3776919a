"""Watch one start until it is ready, and record it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..baselines.recorder import NotGood, Recorder
from ..hosts.channel import Channel
from ..model.launch import Launch
from ..model.sample import Sample
from .child import Child
from .look import Look, Options

TICK_S = 1.0


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


@contextmanager
def started(words: Sequence[str]) -> Iterator[Child]:
    """Run a command with its output in a file of its own; on leaving, it and its process group are ended.

    Raises CannotStart, and KeyboardInterrupt when a signal asks for the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="hangdoc-record-"))
    try:
        child = Child(words, folder / "output.log", _interrupted)
        try:
            yield child
        finally:
            child.end()
            child.release()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _interrupted(number: int) -> None:
    raise KeyboardInterrupt(number)
