"""What was seen of a launch as facts, each read when a cause asks for it. Nothing that was not seen gets a value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ..analysis.advice import fix_of
from ..analysis.judge import Judgement
from ..analysis.links import Edge
from ..analysis.view import Picture, View
from ..model.sample import Process, Socket
from .fact import PROBES
from .values import Missing, Seen, Value

REASONS: Mapping[str, str] = {
    "gone": "it had ended", "zombie": "it has ended", "denied": "not permitted", "timed-out": "no answer in time",
    "tool-missing": "a tool is missing", "unsupported": "not possible on this system",
    "overwritten": "overwritten by the process title", "skipped": "left out so as not to do harm",
    "failed": "the attempt failed",
}  # fmt: skip
# Probes of facts -> probes that the agent knows, where the names differ.
_ASKED = {"arguments": "processes", "judged": "threads", "baseline": "logs"}


class Looked(msgspec.Struct, frozen=True, dict=True):
    """All that judging knows of a launch, and tables over it that several facts need."""

    view: View
    pictures: Sequence[Picture]
    edges: Sequence[Edge]
    judgement: Judgement

    def missing(self, probe: str, pid: int | None = None, reason: str = "", host: str = "") -> Missing:
        """Why a fact of this probe has no value, as far as that is known, and what to do about it. With `host` (or that of
        `pid`), what another host did not let be seen is no reason."""
        wanted = _ASKED.get(probe, probe)
        history = self.view.history
        host = host or (history.host_of(pid) if pid is not None else "")
        for one in history.unseen.values():
            if one.probe == wanted and one.pid in (pid, None) and (not host or one.host in ("", host)):
                return Missing(probe, REASONS[one.reason], fix_of(one))
        return Missing(probe, reason or "not looked at", PROBES[probe])

    def process(self, pid: int) -> Process | None:
        """A member as it was last seen."""
        track = self.view.history.tracks.get(pid)
        return track.process if track else None

    @cached_property
    def pictured(self) -> dict[int, Picture]:
        """Pictures by pid."""
        return {one.member.pid: one for one in self.pictures}

    @cached_property
    def waits(self) -> dict[int, list[Edge]]:
        """Edges by the pid that waits."""
        found: dict[int, list[Edge]] = {}
        for one in self.edges:
            found.setdefault(one.pid, []).append(one)
        return found

    @cached_property
    def sockets(self) -> dict[int, list[Socket]]:
        """TCP sockets by the pid of a member that has them open."""
        owners: dict[int, list[int]] = {}
        for pid, track in self.view.history.tracks.items():
            for fd in (track.process.fds or {}).values():
                if fd.kind == "socket" and fd.inode:
                    owners.setdefault(fd.inode, []).append(pid)
        found: dict[int, list[Socket]] = {}
        for row in self.view.history.sockets:
            if row.family != "unix":
                for pid in owners.get(row.inode, ()):
                    found.setdefault(pid, []).append(row)
        return found


Context = TypeVar("Context")
Getter = Callable[[Context, str], Any]


class Gathered(msgspec.Struct, frozen=True):
    """A subject whose facts are read from what was seen, each at most once.

    A getter gives a plain value, None where a probe looked and found nothing, or `Missing`.
    """

    label: str
    context: Any
    getters: Mapping[str, Getter[Any]]
    places: Mapping[str, str] = {}
    _known: dict[tuple[str, str], Value] = {}

    def get(self, fact: str, name: str = "") -> Value:
        """The fact. `name` for families."""
        key = fact, name
        if key not in self._known:
            found = self.getters[fact](self.context, name)
            self._known[key] = found if isinstance(found, Seen | Missing) else Seen(found)
        return self._known[key]
