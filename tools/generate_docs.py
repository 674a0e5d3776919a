"""Write the documents that are generated from the code: `make docs`. With --check, fail when one is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from hangdoc.report.schema import report_schema_text

DOCS = Path(__file__).parents[1] / "docs"
GENERATED = {"report.schema.json": report_schema_text}


def main() -> int:
    """Write, or with --check compare. Status 1 when something was stale."""
    stale = [name for name, make in GENERATED.items() if not _same(DOCS / name, make())]
    for name in stale:
        print(f"docs/{name} {'is stale: make docs' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            (DOCS / name).write_text(GENERATED[name]())
    return int(bool(stale) and "--check" in sys.argv)


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
