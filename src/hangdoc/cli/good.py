"""Baselines for commands: what cannot be read becomes one message."""

from __future__ import annotations

from ..baselines import store
from ..session.comparing import NONE, Baselines
from . import exits


def baselines_of(wanted: str) -> Baselines | None:
    """What `--baseline` asks for. Raises Stop where it names something that cannot be read."""
    if wanted == NONE:
        return None
    try:
        return Baselines(wanted)
    except store.BaselineError as error:
        raise exits.Stop(str(error), "hangdoc baselines list", exits.USAGE) from None
