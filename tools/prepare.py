"""What is made of the sources as hangdoc is installed: the pack of the YAML that ships (`src/hangdoc/shipped.py`), and byte code.

Hatchling calls it as hangdoc is installed or a wheel is built; `make` calls it when a file has changed. pip compiles what a wheel
brings, but nothing of an editable install: where Python may not write byte code by itself (PYTHONDONTWRITEBYTECODE, as in many
containers), every start would compile 250 files, twice over with those of the agent.
"""

from __future__ import annotations

import compileall
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"


def pack(path: Path, *, sealed: bool) -> None:
    """Write the pack of this clone. `sealed`: for a wheel, whose files get other times."""
    sys.path.insert(0, str(SOURCE))
    from hangdoc.shipped import packed  # noqa: PLC0415 - it is not installed yet

    path.write_bytes(packed(sealed=sealed))


def prepare() -> None:
    """All of it for a clone, beside its sources."""
    pack(SOURCE / "hangdoc" / "shipped.pack", sealed=False)
    compileall.compile_dir(SOURCE, quiet=1)


def get_build_hook() -> Any:
    """What hatchling asks for. Imported late: `make` has no hatchling."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # type: ignore[import-not-found]  # noqa: PLC0415

    class Prepare(BuildHookInterface):  # type: ignore[misc]
        """Puts the pack into a wheel; prepares the clone of an editable install."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called before the wheel is made."""
            if version == "editable":
                prepare()
                return
            file = Path(tempfile.mkdtemp()) / "shipped.pack"
            pack(file, sealed=True)
            build_data["force_include"][str(file)] = "hangdoc/shipped.pack"

    return Prepare


if __name__ == "__main__":
    prepare()
