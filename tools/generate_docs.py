"""Write the documents that are generated from the code: `make docs`. With --check, fail when one is stale."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hangdoc.report import wording
from hangdoc.report.schema import report_schema_text
from hangdoc.rules import load, pages

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


def generated() -> dict[str, str]:
    """All generated documents: name below docs/ -> text."""
    known = load.shipped()
    causes = {f"causes/{one.id}.md": pages.page(one) for one in known}
    return {
        "report.schema.json": report_schema_text(),
        "words.md": words_text(),
        "facts.md": pages.facts_page(),
        "causes/README.md": pages.index(known),
        **causes,
    }


def main() -> int:
    """Write, or with --check compare; pages of causes that are no more are removed. Status 1 when something was stale."""
    check = "--check" in sys.argv
    wanted = generated()
    stale = [name for name, text in wanted.items() if not _same(DOCS / name, text)]
    left = [path for path in (DOCS / "causes").glob("*.md") if f"causes/{path.name}" not in wanted]
    for name in (*stale, *(f"causes/{path.name}" for path in left)):
        print(f"docs/{name} {'is stale: make docs' if check else 'written'}")
    if not check:
        (DOCS / "causes").mkdir(exist_ok=True)
        for name in stale:
            (DOCS / name).write_text(wanted[name])
        for path in left:
            path.unlink()
    return int(check and bool(stale or left))


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
