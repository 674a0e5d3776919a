"""Write the documents that are generated from the code: `make docs`. With --check, fail when one is stale."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hangdoc.report import wording
from hangdoc.report.schema import report_schema_text

DOCS = Path(__file__).parents[1] / "docs"
LISTS: dict[str, tuple[str, Mapping[Any, str]]] = {
    "Verdicts": ("What hangdoc says about a launch.", wording.VERDICT_WORDS),
    "Certainty": ("How sure it is.", wording.CERTAINTY_WORDS),
    "Phases": ("Steps of a start, in the usual order; an engine's profile says which exist.", wording.PHASE_WORDS),
    "Mechanisms": ("What a thread of interest does.", wording.MECHANISM_WORDS),
    "Unseen": ("Why something could not be seen.", wording.REASON_WORDS),
    "Logs": ("What stands behind a process's output.", wording.LOG_VIA_WORDS),
}


def words_text() -> str:
    """The closed lists as Markdown."""
    return "\n".join(_words()) + "\n"


def _words() -> Iterator[str]:
    yield "# Words of the closed lists"
    yield ""
    yield "Generated from the code by `make docs`. The words are those of `hangdoc.report/1`; the other ideas are in the"
    yield "[glossary](glossary.md)."
    for title, (purpose, words) in LISTS.items():
        yield from ("", f"## {title}", "", purpose, "", "| word | in plain English |", "|---|---|")
        yield from (f"| `{word}` | {said} |" for word, said in words.items())


GENERATED = {"report.schema.json": report_schema_text, "words.md": words_text}


def main() -> int:
    """Write, or with --check compare. Status 1 when something was stale."""
    check = "--check" in sys.argv
    stale = [name for name, make in GENERATED.items() if not _same(DOCS / name, make())]
    for name in stale:
        print(f"docs/{name} {'is stale: make docs' if check else 'written'}")
        if not check:
            (DOCS / name).write_text(GENERATED[name]())
    return int(check and bool(stale))


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
