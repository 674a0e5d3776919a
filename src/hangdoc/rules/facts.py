"""The closed list of facts that a cause may ask for. `docs/facts.md` is made from it."""

from __future__ import annotations

from . import facts_host, facts_launch, facts_member
from .fact import Fact

FACTS: dict[str, Fact] = {one.name: one for one in (*facts_launch.ROWS, *facts_host.ROWS, *facts_member.ROWS)}
