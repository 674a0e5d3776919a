"""Pack the YAML that ships (`src/hangdoc/shipped.py`): hundreds of files take too long to read at every start.

Hatchling calls it as hangdoc is installed or a wheel is built; `make` calls it when one of the files has changed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"


def write(path: Path, *, sealed: bool) -> None:
    """Write the pack of this clone. `sealed`: for a wheel, whose files get other times."""
    sys.path.insert(0, str(SOURCE))
    from hangdoc.shipped import packed  # noqa: PLC0415 - it is not installed yet

    path.write_bytes(packed(sealed=sealed))


def get_build_hook() -> Any:
    """What hatchling asks for. Imported late: `make` has no hatchling."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # type: ignore[import-not-found]  # noqa: PLC0415

    class PackShipped(BuildHookInterface):  # type: ignore[misc]
        """Puts the pack into a wheel; for an editable install, beside the sources."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called before the wheel is made."""
            if version == "editable":
                write(SOURCE / "hangdoc" / "shipped.pack", sealed=False)
                return
            file = Path(tempfile.mkdtemp()) / "shipped.pack"
            write(file, sealed=True)
            build_data["force_include"][str(file)] = "hangdoc/shipped.pack"

    return PackShipped


if __name__ == "__main__":
    write(SOURCE / "hangdoc" / "shipped.pack", sealed=False)
