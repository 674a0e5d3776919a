"""Which good starts a launch is held against: named, or the nearest on record."""

from __future__ import annotations

from collections.abc import Callable

from ..analysis import nearest
from ..analysis.configuration import configuration
from ..analysis.diagnosis import Diagnosis
from ..analysis.nearest import Beside
from ..baselines import store
from ..engines import load
from ..model.baseline import Baseline, Configuration

AUTO, NONE = "auto", "none"


class Baselines:
    """Good starts for a launch to be held against."""

    def __init__(self, wanted: str = AUTO) -> None:
        """Read what was named; of the others only the heads, when they are needed.

        `wanted` is "auto", "none", a name or a file. Raises store.BaselineError where that cannot be read."""
        self.wanted = wanted
        self._named = None if self.wanted in (AUTO, NONE) else store.read(store.find(self.wanted))
        self._heads: dict[str, list[tuple[Baseline, Callable[[], Baseline]]]] = {}  # by engine
        self._last: tuple[Configuration, Beside | None, str] | None = None

    def attach(self, diagnosis: Diagnosis) -> None:
        """Give the diagnosis the good starts that are nearest to what it has seen so far."""
        launch = diagnosis.launch
        if self.wanted == NONE or launch is None or launch.engine not in load.ENGINES:
            return
        now = configuration(diagnosis.history, launch, diagnosis.version(), diagnosis.logbook)
        if self._last is None or self._last[0] != now:
            self._last = (now, *self.choose(now))
        _, diagnosis.beside, diagnosis.unmatched = self._last

    def choose(self, now: Configuration) -> tuple[Beside | None, str]:
        """The nearest good starts for a configuration; where there are none, why."""
        profile = load.profiles()[now.engine]
        if self._named is not None:
            return nearest.hold(self._named, now, profile), ""
        if not self._heads:
            for head, whole in store.heads():
                self._heads.setdefault(head.configuration.engine, []).append((head, whole))
        heads = self._heads.get(now.engine, [])
        held = [(nearest.hold(head, now, profile), whole) for head, whole in heads]
        if not held:
            return None, f"no good start of {profile.name} is on record"
        best, whole = min(held, key=lambda one: nearest.order(one[0]))
        if not best.comparable:
            why = next(one.words for one in best.differences if one.apart)
            return None, f"no recorded start matches; the nearest, {best.baseline.name}: {why}"
        try:
            return nearest.hold(whole(), now, profile), ""
        except store.BaselineError as error:
            return None, str(error)
