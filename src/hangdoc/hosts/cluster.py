"""A reach over commands: ssh to many hosts, or whatever stands in its place, driven by ClusterShell's engine.

Everything happens inside `exchange`, in the calling thread: hosts are called, agents started, questions sent, answers
taken, each under its own deadline. Between two exchanges nothing runs, and nothing is lost: pipes hold it.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import statistics
import time
from collections.abc import Mapping, Sequence

from ClusterShell.Engine.Engine import EngineTimer
from ClusterShell.Engine.Factory import PreferredEngine

from ..agent import bundle
from ..model.ask import Ask
from ..model.sample import Sample
from .channel import Lost
from .client import AgentClient
from .link import Link
from .roads import Road
from .tool import Tool

FANOUT = 64  # hosts that are called at the same time; ClusterShell's default
CONNECT_S = 15.0  # from the call to the agent's hello
LATER_S = 6.0  # a host is given up when it takes so long and most others have answered …
LATER_TIMES = 3.0  # … or so many times as long as the slowest of them
_WORDS_S = 2.0  # beyond ssh's own limit, for ssh to say what it was
_TICK_S = 0.02
_AGAIN_S = 0.1  # an exchange takes at least so long while somebody is called again
_END_S = 2.0  # for the agents to end after their stdin was closed
_FILES = 4  # descriptors per host, and a few

logging.getLogger("ClusterShell").addHandler(logging.NullHandler())  # its warnings are told by us, per host


class ClusterReach:
    """The agents behind `roads`. Nobody is called before the first exchange."""

    def __init__(
        self, roads: Sequence[Road], *, send_tool: bool = True, fanout: int = FANOUT, connect_s: float | None = None
    ) -> None:
        """`connect_s`: None is 15 s, or less for a host that is much slower than the others."""
        agent, tool = bundle.build(), Tool() if send_tool else None
        self.hosts = tuple(road.host for road in roads)
        self._links = {road.host: Link(road, agent, tool, self._settled) for road in roads}
        self._fanout, self._connect_s = fanout, connect_s
        self._engine = PreferredEngine("auto", {"fanout": fanout})
        self._until = 0.0
        self._waited_for = 0  # links that somebody waits for
        self._timer: EngineTimer | None = None
        _allow_files(len(roads) * _FILES + 64)

    def exchange(self, asks: Mapping[str, Ask]) -> dict[str, Sample | Lost]:
        """Ask several hosts at once; see channel.Reach."""
        for host, ask in asks.items():
            self._links[host].put(ask)
        self._until = time.monotonic() + (_AGAIN_S if any(link.again for link in self._links.values()) else 0.0)
        self._waited_for = sum(link.open for link in self._links.values())
        self._timer = EngineTimer(0.0, _TICK_S, autoclose=False, handler=self)
        self._engine.add_timer(self._timer)
        self._engine.run(0)
        return {host: self._answer(host) for host in asks}

    def retry(self) -> None:
        """Call those again that were lost."""
        for link in self._links.values():
            link.retry()

    def close(self) -> None:
        """End every agent; what has not ended after a moment is killed."""
        clients = [link.client for link in self._links.values() if link.client is not None]
        for client in clients:
            client.let_go()
        if not _all_end(clients):
            for client in clients:
                client.kill()
            _all_end(clients)

    # What the engine calls.

    def ev_timer(self, timer: EngineTimer) -> None:
        """Some time has passed."""
        now, limit = time.monotonic(), self._limit_s()
        links = self._links.values()
        for link in links:
            link.tick(now, limit)
        calling = sum(link.connecting for link in links)
        for link in links:
            if calling >= self._fanout:
                break
            if link.state == "waiting":
                client = link.start()
                if client is not None:
                    self._engine.add(client)
                    calling += 1
        if now >= self._until and not any(link.open for link in links):
            timer.invalidate()

    def _settled(self) -> None:
        """A link has its answer; with the last one the exchange is over at once."""
        self._waited_for -= 1
        if self._waited_for <= 0 and self._timer is not None and time.monotonic() >= self._until:
            self._timer.invalidate()

    def _limit_s(self) -> float:
        """For how long a host may be on its way now."""
        if self._connect_s is not None:
            return self._connect_s + _WORDS_S
        took = [link.took_s for link in self._links.values() if link.took_s is not None]
        if 2 * len(took) < len(self._links) or len(self._links) == 1:
            return CONNECT_S
        return min(CONNECT_S, max(LATER_S, LATER_TIMES * statistics.quantiles(took, n=20)[-1] if len(took) > 1 else 0))

    def _answer(self, host: str) -> Sample | Lost:
        answer = self._links[host].answer
        return answer if answer is not None else Lost(host, "skipped", "it is being connected to again")


def _all_end(clients: Sequence[AgentClient]) -> bool:
    """Whether all processes have ended, and were collected, within a moment."""
    end = time.monotonic() + _END_S
    while any(client.process.poll() is None for client in clients):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _allow_files(wanted: int) -> None:
    """Open so many files, if this user may: three for each host."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
