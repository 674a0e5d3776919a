"""Agents inside the hosts of `sshosts`, entered by their namespaces instead of ssh: a `Reach` for tests of what lies above."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from sshosts import Host

from hangdoc.agent import bootstrap, bundle
from hangdoc.hosts.channel import ChannelError, Lost
from hangdoc.hosts.local import CommandChannel
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Sample


class Entered:
    """A `Reach` over hosts of our own making. `cut` and `mend` make a host fail and come back."""

    def __init__(self, *hosts: Host) -> None:
        self.hosts = tuple(one.name for one in hosts)
        self._by_name = {one.name: one for one in hosts}
        self._channels: dict[str, CommandChannel] = {}
        self._lost: dict[str, Lost] = {}
        self._cut: set[str] = set()
        self.retry()

    def retry(self) -> None:
        self._lost = {name: Lost(name, "timed-out", "no route to host") for name in self._cut}
        agent = bundle.build_here()
        for name, host in self._by_name.items():
            if name not in self._channels and name not in self._cut:
                command = [*host.enter, *bootstrap.command(sys.executable, len(agent))]
                self._channels[name] = CommandChannel(name, command, agent)

    def cut(self, name: str) -> None:
        self._cut.add(name)
        self._channels.pop(name).close()

    def mend(self, name: str) -> None:
        self._cut.discard(name)

    def exchange(self, asks: Mapping[str, Ask]) -> dict[str, Sample | Lost]:
        with ThreadPoolExecutor(max(1, len(asks))) as pool:
            answers = {name: pool.submit(self._ask, name, ask) for name, ask in asks.items()}
            return {name: answer.result() for name, answer in answers.items()}

    def _ask(self, name: str, ask: Ask) -> Sample | Lost:
        if name in self._lost:
            return self._lost[name]
        try:
            return self._channels[name].ask(ask)
        except (ChannelError, KeyError) as error:
            self._lost[name] = Lost(name, "failed", f"the connection ended: {error}")
            return self._lost[name]

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels = {}
