"""How long hangdoc takes to say its version, beside py-spy, a native program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Row, command_seconds

BAR_MS = 100


def rows() -> Iterator[Row]:
    """One row."""
    folder = Path(sys.executable).parent
    ms = 1000 * command_seconds([str(folder / "hangdoc"), "--version"])
    peer = 1000 * command_seconds([str(folder / "py-spy"), "--version"])
    yield Row("hangdoc --version", f"<= {BAR_MS} ms", f"{ms:.0f} ms", ms <= BAR_MS, f"py-spy --version {peer:.0f} ms")
