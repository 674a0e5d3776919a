"""What a benchmark returns, and how time is taken. `python tests/bench` runs every `bench_*.py` beside this file."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table. A benchmark module gives some with `def rows() -> Iterable[Row]`."""

    what: str
    bar: str  # the number to reach, with its unit
    measured: str
    ok: bool | None = None  # None: could not be measured here, `measured` says why
    peer: str = ""  # the same by another tool, in the same run


def seconds(action: Callable[[], object], times: int = 5) -> float:
    """Median wall time of `action`, after one run that warms the caches."""
    action()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def command_seconds(words: Sequence[str], times: int = 5) -> float:
    """Median wall time of a command that must succeed."""
    return seconds(lambda: subprocess.run(words, capture_output=True, check=True), times)
