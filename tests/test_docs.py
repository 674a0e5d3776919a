"""Documents say what the code does."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hangdoc.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_generated_documents_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_and_option_has_its_place(name: str) -> None:
    manual = (ROOT / "docs" / "cli.md").read_text()
    part = re.search(rf"^## hangdoc {name}\b.*?(?=^## |\Z)", manual, re.MULTILINE | re.DOTALL)
    assert part, f"docs/cli.md has no part on {name}"
    if importlib.util.find_spec(f"hangdoc.cli.{name.replace('-', '_')}") is None:
        pytest.skip(f"hangdoc {name} is not there yet")
    group = typer.main.get_command(app.build(lambda one: one == name))
    options = {option for one in group.commands[name].params for option in one.opts if option.startswith("-")}  # type: ignore[attr-defined]
    described = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", part.group()))
    assert options - {"--help", "-h"} <= described


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
