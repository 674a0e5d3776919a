"""How long it takes to draw the screen of a large launch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness import Row, seconds

from hangdoc.report import terminal

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from reports import hung

RANKS, BAR_MS = 1024, 200


def rows() -> Iterator[Row]:
    """One row."""
    small = hung()
    ranks = [replace(small.ranks[number % 8], rank=f"TP{number}", pid=10_000 + number) for number in range(RANKS)]
    report = replace(small, ranks=ranks)
    ms = 1000 * seconds(lambda: terminal.render(report, width=120))
    yield Row(f"screen of {RANKS} ranks", f"<= {BAR_MS} ms", f"{ms:.0f} ms", ms <= BAR_MS)
