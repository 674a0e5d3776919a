"""Run the benchmarks and print one table: what, bar, measured, peer. Arguments choose benchmarks by name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from harness import Row
from rich.console import Console
from rich.table import Table


def main(chosen: list[str]) -> int:
    """Status 1 when a bar was missed or a benchmark failed."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    rows = [row for name in names if not chosen or name.removeprefix("bench_") in chosen for row in _rows(name)]
    table = Table("what", "bar", "measured", "", "peer", box=None)
    for row in rows:
        table.add_row(row.what, row.bar, row.measured, {True: "reached", False: "MISSED", None: ""}[row.ok], row.peer)
    Console(width=160, highlight=False).print(table)
    return int(any(row.ok is False for row in rows))


def _rows(name: str) -> list[Row]:
    print(f"{name} …", file=sys.stderr)
    try:
        return list(importlib.import_module(name).rows())
    except Exception as error:  # one that fails must not hide the others
        return [Row(name, "", f"{type(error).__name__}: {error}", ok=False)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
