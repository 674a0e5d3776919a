"""The report as Markdown for a GitHub issue: without names and secrets, raw detail folded. Report in, text out."""

from __future__ import annotations

import functools
import re

import jinja2

from ..model.report import Report
from . import picture, wording
from .anonymise import anonymise
from .details import stack_lines
from .safe import clean

_LINES = 300  # of one fenced block
# Characters with a meaning in Markdown or HTML, and @ # which make GitHub notify people or link issues.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@$])")


def render(report: Report) -> str:
    """The report as Markdown with a line end. Everything that others wrote is escaped or fenced."""
    safe = anonymise(report)
    return _template().render(report=safe, picture=picture, wording=wording, stack_lines=stack_lines)


def inline(text: str, limit: int = 400) -> str:
    """Text of others within a line of Markdown: shown literally, whatever it holds."""
    # A backslash before @ does not stop GitHub from notifying people; an empty comment after it does.
    return _SPECIAL.sub(r"\\\1", clean(text, limit)).replace("\\@", "@<!-- -->").replace("://", ":<!-- -->//")


def code(text: str, limit: int = 400) -> str:
    """Text of others as a code span that its own backticks cannot close."""
    shown = clean(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, limit: int = 200) -> str:
    """A code span that fits into a table."""
    return code(text.replace("|", "¦"), limit)


def fence(lines: object) -> str:
    """Lines of others as a fenced block that they cannot break out of."""
    listed = [clean(str(line), 1000) for line in lines]  # type: ignore[attr-defined]
    over = len(listed) - _LINES
    if over > 0:
        listed = [*listed[:_LINES], f"… {over} more lines"]
    longest = max((len(run) for line in listed for run in re.findall("`+", line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}text", *listed, ticks])


@functools.lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    # Markdown is no HTML: escaping is done by the filters above, and a test holds that no value goes without one.
    environment = jinja2.Environment(  # noqa: S701
        loader=jinja2.PackageLoader("hangdoc.report"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(inline=inline, code=code, cell=cell, fence=fence)
    return environment.get_template("report.md.j2")
