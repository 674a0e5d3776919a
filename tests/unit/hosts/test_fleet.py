"""A fleet over hosts that are played: skew taken out, hosts that drop out and come back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from hangdoc.hosts.channel import ChannelError, Lost
from hangdoc.hosts.fleet import Fleet
from hangdoc.model.ask import Ask
from hangdoc.model.places import packed
from hangdoc.model.sample import Process, Sample


class Played:
    """A `Reach` of hosts with clocks of their own."""

    def __init__(self, **ahead: float) -> None:
        self.ahead = ahead  # seconds of each host's clocks before ours
        self.hosts = tuple(ahead)
        self.lost: dict[str, Lost] = {}
        self.retries = 0
        self.asked: list[tuple[str, Ask]] = []

    def sample(self, host: str, ask: Ask) -> Sample:
        now = time.monotonic() + self.ahead[host]
        processes = {7: Process(7, 1, now - 60, "S", "python")} if {"scan", "processes"} & set(ask.probes) else {}
        return Sample(f"node-{host}", 5e8 + now, now, now, ask.probes, processes)

    def exchange(self, asks: Mapping[str, Ask]) -> dict[str, Sample | Lost]:
        self.asked += asks.items()
        return {host: self.lost.get(host) or self.sample(host, ask) for host, ask in asks.items()}

    def retry(self) -> None:
        self.retries += 1

    def close(self) -> None:
        pass


def scan(fleet: Fleet) -> Sample:
    return fleet.ask(Ask(1, ("scan",)))


def test_clocks_of_all_hosts_are_those_of_the_first() -> None:
    fleet = Fleet(Played(a=1000.0, b=250_000.0))
    first = scan(fleet)
    assert first.mono == pytest.approx(time.monotonic() + 1000, abs=0.5)
    assert {round(first.boot - one.start) for one in first.processes.values()} == {60}
    assert first.places[1].wall_ahead == pytest.approx(249_000, abs=0.5)
    again = fleet.ask(Ask(2, ("processes",), pids=(7, packed(1, 7))))
    born = [one.processes[packed(1, 7)].start - one.mono for one in (first, again)]
    assert born[0] == pytest.approx(born[1], abs=0.1)


def test_a_host_that_drops_out_leaves_the_others_and_the_clock_goes_on() -> None:
    reach = Played(a=5.0, b=0.0)
    fleet = Fleet(reach)
    before = scan(fleet)
    reach.lost["a"] = Lost("a", "timed-out", "no route")
    after = fleet.ask(Ask(2, ("processes",), pids=(7, packed(1, 7))))
    assert list(after.processes) == [packed(1, 7)]
    assert (after.places[0].lost, after.host) == ("timed-out", before.host)
    assert 0 <= after.mono - before.mono < 1
    assert after.places[0].silent
    assert not after.places[1].silent


def test_a_lost_host_is_asked_again_only_after_a_retry() -> None:
    reach = Played(a=0.0, b=0.0)
    reach.lost["b"] = Lost("b", "failed", "refused")
    fleet = Fleet(reach, retry_s=0.0)
    assert scan(fleet).places[1].detail == "refused"
    del reach.lost["b"]
    assert scan(fleet).places[1].lost is None
    assert reach.retries == 1
    still = Fleet(replace_lost(reach, "b"))
    scan(still)
    del reach.lost["b"]
    assert scan(still).places[1].lost == "failed"  # without a retry it stays lost, and is not asked


def replace_lost(reach: Played, host: str) -> Played:
    reach.lost[host] = Lost(host, "failed", "refused")
    return reach


def test_a_host_without_a_member_is_looked_at_now_and_then_for_a_node_that_starts_later() -> None:
    reach = Played(a=0.0, b=0.0)
    fleet = Fleet(reach)
    scan(fleet)
    reach.asked.clear()
    sample = fleet.ask(Ask(2, ("processes",), pids=(7,)))
    assert [host for host, _ in reach.asked] == ["a"]
    assert not sample.places[1].asked
    fleet._scanned_at[1] -= 60
    reach.asked.clear()
    sample = fleet.ask(Ask(3, ("processes",), pids=(7,)))
    assert [(host, ask.probes) for host, ask in reach.asked] == [("a", ("processes",)), ("b", ("scan",))]
    assert packed(1, 7) in sample.processes


def test_one_host_under_its_own_name_costs_nothing() -> None:
    class Here(Played):
        def sample(self, host: str, ask: Ask) -> Sample:
            return replace(super().sample(host, ask), host=host)

    reach = Here(a=0.0)
    assert scan(Fleet(reach)).places == ()
    assert len(reach.asked) == 1


def test_a_host_that_never_answered_is_an_error_with_its_words() -> None:
    reach = Played(a=0.0)
    reach.lost["a"] = Lost("a", "denied", "Permission denied (publickey)")
    with pytest.raises(ChannelError, match="a: Permission denied"):
        scan(Fleet(reach))


def test_the_only_host_is_asked_also_what_concerns_nobody() -> None:
    reach = Played(a=0.0)
    assert Fleet(reach).ask(Ask(1, ("packages",))).probes == ("packages",)
    assert [host for host, _ in reach.asked][:1] == ["a"]


def test_a_host_that_a_reach_passes_over_is_lost() -> None:
    class Silent(Played):
        def exchange(self, asks: Mapping[str, Ask]) -> dict[str, Sample | Lost]:
            self.asked += asks.items()
            return {}

    with pytest.raises(ChannelError, match="a: it gave no answer"):
        scan(Fleet(Silent(a=0.0)))
