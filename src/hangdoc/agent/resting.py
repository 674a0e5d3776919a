"""Processes that nobody waits for and that spent no CPU time: what was read of them is good for some seconds more.

Compilers, trackers and pools of workers are most of a launch's processes and mostly sleep. Their `stat` as a whole (CPU
times of all threads, faults, state, number of threads) tells in one read that they did; then `status`, `io` and outputs
are not read.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple

from ..probes import processes

ANEW_S = 5.0  # what takes less than a tick of the clock changes no CPU time, but bytes and switches
Identity = Tuple[int, float]  # pid, start


class _Known(NamedTuple):
    raw: Optional[bytes]
    at: float
    plain: Optional[Dict[str, Any]] = None


class Resting:
    """What was last read of each, and what `stat` was then."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self._known: Dict[Identity, _Known] = {}

    def plain(self, identity: Identity, now: float, *, fds: bool = False) -> Optional[Dict[str, Any]]:
        """The process as it was, where it has not run since; None when it has to be read. With `fds`, its outputs too: who
        has not run has opened none, and where they stand by now those tell that have written."""
        raw, known = processes.raw_stat(self.root, identity[0]), self._known.get(identity)
        if known is not None and known.plain is not None and raw == known.raw and now - known.at < ANEW_S:
            if not fds:
                return {name: value for name, value in known.plain.items() if name != "fds"}
            if "fds" in known.plain:
                return dict(known.plain)
        self._known[identity] = _Known(raw, now)
        return None

    def keep(self, identity: Identity, plain: Dict[str, Any]) -> None:
        """Take note of what was read after `plain` had nothing."""
        known = self._known.get(identity)
        if known is not None and known.raw is not None and known.plain is None:
            self._known[identity] = known._replace(plain=dict(plain))

    def forget_all_but(self, alive: Iterable[Identity]) -> None:
        """Drop those that are gone."""
        kept = set(alive)
        self._known = {identity: one for identity, one in self._known.items() if identity in kept}
