"""Log templates: lines a second beside Drain3 on the same log, and a long log held against five baselines."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from harness import Row, seconds

from hangdoc.analysis import compare, nearest, templates
from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.baselines.fromlog import baseline_of_log
from hangdoc.engines.load import profiles
from hangdoc.model.baseline import Baseline
from hangdoc.model.launch import Launch, Member, Rank
from hangdoc.model.sample import Log, LogChunk, Sample

BAR_LINES, BAR_LONG_S = 100_000, 1.0
LONG = 50_000
_DATA = Path(__file__).parents[1] / "data" / "engines"


def _log(count: int) -> list[str]:
    """Lines of real starts again and again, every number another one."""
    lines = [line for path in sorted(_DATA.glob("*.log")) for line in path.read_text().splitlines()]
    return [
        lines[number % len(lines)].replace("16:3", f"{number % 24:02}:{number % 6}", 1) + f" {number}"
        for number in range(count)
    ]


def _templates(lines: list[str]) -> None:
    templates.forget()
    for line in lines:
        templates.template(line)


def _drain3(lines: list[str]) -> str:
    if importlib.util.find_spec("drain3") is None:
        return "Drain3 90,000/s (published; not installed here)"
    drain3 = importlib.import_module("drain3")

    def mine() -> None:
        miner = drain3.TemplateMiner()
        for line in lines:
            miner.add_log_message(line)

    return f"Drain3 {len(lines) / seconds(mine, 1):,.0f}/s"


def _compared(text: str, one: Baseline) -> None:
    members = {7: Member(7, 1.0, "launcher"), **{8 + n: Member(8 + n, 1.0, "scheduler", Rank(tp=n)) for n in range(2)}}
    launch = Launch("box", 7, "sglang", members)
    log = Log("/log", "file", (7,), size=len(text), mtime=1.8e9, inode=1, chunks=(LogChunk(0, text, len(text)),))
    diagnosis = Diagnosis(7)
    diagnosis.read_log(launch, Sample("box", 1.8e9, 10.0, 1.8e9, logs=[log]))
    for _ in range(5):
        diagnosis.beside = nearest.hold(one, one.configuration, profiles()["sglang"])
        view = diagnosis.view()
        assert view is not None
        assert compare.row(view, None) is not None


def rows() -> Iterator[Row]:
    """Two rows."""
    lines = _log(20_000)
    rate = len(lines) / seconds(lambda: _templates(lines), 3)
    yield Row("log templates", f">= {BAR_LINES:,}/s", f"{rate:,.0f}/s", rate >= BAR_LINES, _drain3(lines))
    text = "\n".join(_log(LONG)) + "\n"
    one = baseline_of_log(_DATA / "sglang-0.5.23-cpu-tp2.log", "x")
    took = seconds(lambda: _compared(text, one), 3)
    yield Row(
        f"a log of {LONG:,} lines against five baselines", f"<= {BAR_LONG_S:.0f} s", f"{took:.2f} s", took <= BAR_LONG_S
    )
