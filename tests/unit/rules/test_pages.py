"""Pages of causes say what stands for what in their commands."""

from __future__ import annotations

import re

import pytest

from hangdoc.rules import load, pages
from hangdoc.rules.form import PLACES, KnownCause

CAUSES = load.shipped()


@pytest.mark.parametrize("cause", CAUSES, ids=lambda one: one.id)
def test_a_page_explains_each_name_in_capitals_that_it_uses_and_no_other(cause: KnownCause) -> None:
    used = {name for name in PLACES for one in cause.next if f"{{{name}}}" in one.why + one.run}
    said = re.search(r"fills these in: (.*)", pages.page(cause))
    told = {part.split(" is ")[0].lower() for part in said[1].split(". ")[0].split("; ")} if said else set()
    assert told == used
