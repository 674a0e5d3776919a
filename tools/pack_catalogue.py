"""Known causes as one file of JSON, which a wheel has in place of hundreds of YAML files: they take too long to read.

Hatchling calls it as it builds a wheel; it needs PyYAML alone. That the causes are well made is what the tests say.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

CATALOGUE = "src/hangdoc/rules/catalogue"


def packed(root: Path) -> str:
    """The whole catalogue of a clone, in the order of its files."""
    paths = sorted((root / CATALOGUE).rglob("*.yaml"))
    return json.dumps([yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths])


def get_build_hook() -> Any:
    """What hatchling asks for. Imported late: tests need `packed` and have no hatchling."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # type: ignore[import-not-found]  # noqa: PLC0415

    class PackCatalogue(BuildHookInterface):  # type: ignore[misc]
        """Adds the packed catalogue to a wheel; an editable install reads the files."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called before the wheel is made."""
            if version != "editable":
                file = Path(tempfile.mkdtemp()) / "catalogue.json"
                file.write_text(packed(Path(self.root)), encoding="utf-8")
                build_data["force_include"][str(file)] = "hangdoc/rules/catalogue.json"

    return PackCatalogue
