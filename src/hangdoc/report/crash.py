"""How a launch ended, as rows of the terminal's screen. Renders, never judges."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ..model.report import Crash, EndedRow, LastLine
from .safe import clean
from .wording import duration, plural

_ENDED, _TRACE, _LAST = 4, 6, 6


def rows(crash: Crash, *, verbose: bool) -> Iterator[tuple[str, Text]]:
    """Ends in their order, the OOM killer, the first traceback, last lines in their order."""
    shown = crash.ended if verbose else crash.ended[:_ENDED]
    for number, one in enumerate(shown):
        yield ("Ended" if number == 0 else "", _ended(one))
    if len(crash.ended) > len(shown):
        yield ("", Text(f"and {len(crash.ended) - len(shown)} more", style="dim"))
    for number, line in enumerate(crash.oom):
        yield ("Memory" if number == 0 else "", Text(clean(line, 300)))
    if crash.traceback is not None:
        found = crash.traceback
        who = clean(f"{found.role or 'somebody'} {found.rank}".strip(), 60)
        yield ("Error", Text(f"first traceback, of {who}: {clean(found.exception or 'it has no end', 300)}"))
        for line in found.lines if verbose else found.lines[-_TRACE:]:
            yield ("", Text(clean(line, 240), style="dim"))
        if found.cascade:
            yield ("", Text(f"{plural(found.cascade, 'traceback')} followed it", style="dim"))
    last = crash.last_lines if verbose else crash.last_lines[-_LAST:]
    for number, writer in enumerate(last):
        yield ("Last said" if number == 0 else "", _said(writer))


def _ended(one: EndedRow) -> Text:
    ago = f", {duration(one.ago_s)} ago" if one.ago_s is not None else ""
    return Text(f"{clean(f'{one.role} {one.rank}'.strip(), 60)} (PID {one.pid}) {clean(one.how, 120)}{ago}")


def _said(one: LastLine) -> Text:
    who = f"{one.role} {one.rank}".strip() if one.role else "unnamed"
    ago = f", {duration(one.ago_s)} ago" if one.ago_s is not None else ""
    return Text(f"{clean(who, 60)}{ago}: {clean(one.line.strip(), 240)}")
