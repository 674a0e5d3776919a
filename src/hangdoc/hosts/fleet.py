"""A fleet: the hosts of one reach behind one channel, each question split by host, the answers made one sample."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from ..model.ask import Ask
from ..model.frozen import dataclass, replace
from ..model.places import HostPlace, own, packed, place_of, unmarked
from ..model.sample import Sample
from .channel import ChannelError, Lost, Reach
from .move import Shift
from .union import lost_place, union

SCAN_S = 5.0  # between two looks for a launch on a host that has no member so far
_NOBODY = (0,)  # no process has this number; an empty tuple would mean everybody
_PINGS = 2  # questions that only ask for the clocks
_STEP_S = 1.0  # clocks that differ by more from what they were belong to a host that was started anew


@dataclass(frozen=True)
class _Clocks:
    """What to add to a host's clocks for our own monotonic clock, and how well that is known."""

    mono: float
    boot: float
    wall: float
    doubt_s: float


class Fleet:
    """The `Channel` of one or many hosts. A host that fails is lost, and the sample says so; the others go on."""

    def __init__(self, reach: Reach, retry_s: float | None = None) -> None:
        """`retry_s`: how often lost hosts are tried again; None is never."""
        self.reach = reach
        self.hosts = reach.hosts
        self.host = reach.hosts[0]
        self._retry_s = retry_s
        self._retried_at = time.monotonic()
        self._id = 0
        self._clocks: dict[int, _Clocks] = {}
        self._reference: int | None = None
        self._lost: dict[int, Lost] = {}
        self._scanned_at: dict[int, float] = {}

    @property
    def lost(self) -> list[Lost]:
        """The hosts that are lost now."""
        return list(self._lost.values())

    def place(self, host: str) -> int:
        """The place of a host by the name that it was given. Raises ValueError."""
        return self.hosts.index(host)

    def pid(self, host: str, pid: int) -> int:
        """A process id of a host as it stands in the samples. Raises ValueError."""
        return packed(self.place(host), pid)

    def ask(self, ask: Ask) -> Sample:
        """Ask every host that the question concerns. Raises ChannelError when no host has answered so far."""
        now = time.monotonic()
        if self._lost and self._retry_s is not None and now - self._retried_at >= self._retry_s:
            self._retried_at = now
            self.reach.retry()
        asks, before = self._split(ask, now), set(self._lost)
        samples = self._exchange(asks)
        unknown = [place for place in samples if place not in self._clocks or place in before]
        if self._retry_s is None and len(self.hosts) == 1 and samples and samples[0].host == self.host:
            return samples[0]  # one host under its own name: there is nothing to be told apart
        self._learn(unknown, samples)
        if self._reference is None:
            raise ChannelError("; ".join(f"{one.host}: {one.detail}" for one in self._lost.values()) or "no host")
        places = [self._place(place, answered=place in samples) for place in range(len(self.hosts))]
        shifts = {place: self._shift(place) for place in samples}
        return union(places, samples, shifts, self._now(samples), ask.probes)

    def close(self) -> None:
        """End every agent and leave nothing behind."""
        self.reach.close()

    def _exchange(self, asks: Mapping[int, Ask]) -> dict[int, Sample]:
        self._id += 1
        wanted = {self.hosts[place]: replace(one, id=self._id) for place, one in asks.items()}
        samples: dict[int, Sample] = {}
        for host, answer in (self.reach.exchange(wanted) if wanted else {}).items():
            if isinstance(answer, Lost):
                self._lost[self.place(host)] = answer
            else:
                samples[self.place(host)] = answer
                self._lost.pop(self.place(host), None)
        for place in asks:
            if place not in samples and place not in self._lost:
                self._lost[place] = Lost(self.hosts[place], "timed-out", "it gave no answer")
        return samples

    def _split(self, ask: Ask, now: float) -> dict[int, Ask]:
        # Who is called again answers one day; nobody waits for it.
        alive = [place for place in range(len(self.hosts)) if self._retry_s is not None or place not in self._lost]
        if "scan" in ask.probes or len(self.hosts) == 1:  # what concerns nobody is for the only host, too
            self._scanned_at = dict.fromkeys(alive, now)
            return {place: ask_of(ask, place, self.hosts) for place in alive}
        named = {place_of(pid) for pid in ask.pids} | {place_of(one.pid) for one in ask.health}
        asks = {place: ask_of(ask, place, self.hosts) for place in alive if place in named}
        if "processes" in ask.probes:  # a node may be started later
            for place in alive:
                if place not in named and now - self._scanned_at.get(place, now - SCAN_S) >= SCAN_S:
                    self._scanned_at[place] = now
                    asks[place] = Ask(ask.id, ("scan",), deadline_s=ask.deadline_s)
        return asks

    def _learn(self, unknown: Iterable[int], samples: Mapping[int, Sample]) -> None:
        """Ask hosts that are new for their clocks: the question with the shortest way there and back counts."""
        places = list(unknown)
        if not places:
            return
        best: dict[int, _Clocks] = {}
        for _ in range(_PINGS):
            began = time.monotonic()
            answers = self._exchange({place: Ask(0, (), deadline_s=2.0) for place in places})
            ended = time.monotonic()
            for place, sample in answers.items():
                way = max(0.0, ended - began - sample.cost.wall_s)
                found = _clocks(sample, began + way / 2, way / 2)
                if place not in best or found.doubt_s < best[place].doubt_s:
                    best[place] = found
        for place in places:
            found = best.get(place) or _clocks(samples[place], time.monotonic() - samples[place].cost.wall_s, 1.0)
            known = self._clocks.get(place)
            # Instants of one process must stay what they are: clocks change only with another start of the host.
            if known is None or abs(known.boot - found.boot) > _STEP_S:
                self._clocks[place] = found
        if self._reference is None:
            self._reference = min(places)

    def _shift(self, place: int) -> Shift:
        mine, base = self._clocks[place], self._clocks[self._reference or 0]
        if place == self._reference:
            return Shift()
        return Shift(mine.mono - base.mono, mine.boot - base.boot, mine.wall - base.wall)

    def _now(self, samples: Mapping[int, Sample]) -> Shift:
        """The clocks of the union now: those of the host that they follow, also while it is lost."""
        reference = self._reference or 0
        if reference in samples:
            one = samples[reference]
            return Shift(one.mono, one.boot, one.at)
        clocks, now = self._clocks[reference], time.monotonic()
        return Shift(now - clocks.mono, now - clocks.boot, now - clocks.wall)

    def _place(self, place: int, *, answered: bool) -> HostPlace:
        host = self.hosts[place]
        if place in self._lost:
            return replace(lost_place(self._lost[place]), host=host)
        ahead = -self._shift(place).wall if place in self._clocks else 0.0
        return HostPlace(host, asked=answered, wall_ahead=round(ahead, 6))


def _clocks(sample: Sample, here: float, doubt_s: float) -> _Clocks:
    return _Clocks(here - sample.mono, here - sample.boot, here - sample.at, doubt_s)


def ask_of(ask: Ask, place: int, hosts: tuple[str, ...]) -> Ask:
    """The part of a question that is for one host, in that host's own numbers. Pure."""

    def mine(pids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(own(pid) for pid in pids if place_of(pid) == place)

    def some(pids: tuple[int, ...]) -> tuple[int, ...]:
        return mine(pids) or (_NOBODY if pids else ())

    logs = [unmarked(hosts, path) for path in ask.logs]
    offsets = [(unmarked(hosts, path), offset) for path, offset in ask.log_offsets.items()]
    return replace(
        ask,
        pids=mine(ask.pids),
        stack_pids=some(ask.stack_pids),
        thread_pids=some(ask.thread_pids),
        deep_pids=mine(ask.deep_pids),
        needed=None if ask.needed is None else mine(ask.needed),
        wait_pids=None if ask.wait_pids is None else mine(ask.wait_pids),
        logs=tuple(path for at, path in logs if at == place),
        log_offsets={path: offset for (at, path), offset in offsets if at == place},
        health=[replace(one, pid=own(one.pid)) for one in ask.health if place_of(one.pid) == place],
    )
