"""Ask a server's health path, in its own network namespace and past any proxy."""

from __future__ import annotations

from ..model.ask import HealthAsk
from ..model.sample import Health


def ask(root: str, wanted: HealthAsk, deadline_s: float = 2.0) -> Health:
    """One GET on loopback, answered within the deadline or not. Never follows a redirect, never reads more than 4 kB."""
    raise NotImplementedError
