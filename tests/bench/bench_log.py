"""How fast a log is read: lines of a start through the whole logbook, and opening a log of 1 GB."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness import Row, seconds

from hangdoc.analysis.logbook import Logbook
from hangdoc.engines.load import profiles
from hangdoc.model.launch import Launch, Member, Rank
from hangdoc.model.sample import Fd, Log, LogChunk, Process, Sample
from hangdoc.probes import logs

BAR_LINES, BAR_OPEN_S = 100_000, 2.0
_LINES = 100_000
_MEMBERS = {7: Member(7, 1.0, "launcher"), **{8 + n: Member(8 + n, 1.0, "scheduler", Rank(tp=n)) for n in range(8)}}


def _text() -> str:
    """A log in which one line in a hundred is a mark and the others differ in numbers only."""
    lines = []
    for number in range(_LINES):
        said = (
            "Load weight begin. avail mem=1.5 GB"
            if number % 100 == 0
            else f"Decoding block {number} of shard {number % 7}"
        )
        lines.append(f"[2026-11-29 16:31:{number % 60:02} TP{number % 8}] {said}\n")
    return "".join(lines)


def _read(sample: Sample, launch: Launch) -> None:
    Logbook(profiles()["sglang"]).add(sample, launch, "0.5.23")


def _open_large(path: Path) -> float:
    size = 1 << 30
    line = (
        b"[2026-11-29 16:31:01 TP0] Prefill batch, #new-seq: 1, #new-token: 29, #cached-token: 0, token usage: 0.00\n"
    )
    block = line * (1 + (1 << 20) // len(line))
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)
    with path.open("ab") as file:
        stat = os.fstat(file.fileno())
        me = Process(os.getpid(), 1, 1.0, "S", "python", fds={1: Fd(1, "file", str(path), stat.st_ino)})
        began = time.perf_counter()
        found = logs.read("/proc", {me.pid: me}, (), {}, [])
        took = time.perf_counter() - began
    assert found[0].size is not None
    assert found[0].size >= size
    return took


def rows() -> Iterator[Row]:
    """Two rows."""
    text = _text()
    log = Log("/log", "file", (7,), size=len(text), mtime=1.0, inode=1, chunks=(LogChunk(0, text, len(text)),))
    sample = Sample("box", 1_800_000_000.0, 10.0, 10.0, logs=[log])
    launch = Launch("box", 7, "sglang", _MEMBERS)
    rate = _LINES / seconds(lambda: _read(sample, launch), 3)
    yield Row(f"log lines judged ({_LINES:,} lines)", f">= {BAR_LINES:,}/s", f"{rate:,.0f}/s", rate >= BAR_LINES,
              "Drain3 90,000/s, logreduce 10,000/s (published)")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        took = _open_large(Path(folder) / "large.log")
    yield Row("a log of 1 GB opened (in the page cache)", f"<= {BAR_OPEN_S:.0f} s", f"{took:.2f} s", took <= BAR_OPEN_S)
