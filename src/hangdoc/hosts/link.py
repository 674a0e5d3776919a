"""One host of a reach: from its command to an agent that answers, or to the reason why it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from ..agent import bootstrap
from ..codec import DecodeError, decode, encode
from ..model.ask import Ask
from ..model.frozen import dataclass, replace
from ..model.sample import Ended, Sample
from ..model.words import UnseenReason
from . import lastwords
from .channel import Lost
from .client import AgentClient
from .frames import NOISE_LIMIT, Reader, TooMuch
from .roads import Road
from .tool import Tool

GRACE_S = 3.0  # beyond an ask's own deadline, for both ways
TOOL_S = 20.0  # for a py-spy to arrive
IDLE_S = 900.0  # an agent that is not asked for so long ends by itself
_ENDING_S = 0.5  # for a process to end after its output did: its status is worth that
_WORDS = 16 << 10  # of what it said, the last bytes

State = Literal["waiting", "calling", "starting", "ready", "ending", "lost"]


@dataclass(frozen=True)
class _Said:
    """One message of the far side."""

    go: int | None = None
    hello: int | None = None
    machine: str = ""
    sample: Sample | None = None
    error: str | None = None
    id: int | None = None


class Link:
    """The state of one host. What happens is told by `heard` and `closed`; time passes by `tick`."""

    def __init__(self, road: Road, agent: bytes, tool: Tool | None, settled: Callable[[], None] = lambda: None) -> None:
        """`settled` is called when somebody waited for an answer and it is there."""
        self.road = road
        self._settled = settled
        self.state: State = "waiting"
        self.again = False  # connecting once more after it was lost: nobody waits for that
        self.client: AgentClient | None = None
        self.answer: Sample | Lost | None = None
        self.took_s: float | None = None  # from its start to its agent's hello
        self.began = 0.0
        self._agent, self._tool = agent, tool
        self._tool_sent = False
        self._machine = ""
        self._reader = Reader()
        self._words = bytearray()
        self._complained = 0
        self._ask: Ask | None = None
        self._early: list[Ended] = []  # of an answer that was asked for once more
        self._deadline = 0.0
        self._lost: Lost | None = None
        self._why: tuple[UnseenReason, str] | None = None  # what we already know of its end

    @property
    def connecting(self) -> bool:
        """Whether its agent is on the way."""
        return self.state in ("calling", "starting")

    @property
    def open(self) -> bool:
        """Whether somebody waits for an answer of it."""
        return self._ask is not None and self.answer is None and not self.again

    def start(self) -> AgentClient | None:
        """Call the host. The client that the engine has to run; None where there is no such command."""
        self.state, self.began = "calling", time.monotonic()
        self._reader, self._words, self._complained, self._why = Reader(), bytearray(), 0, None
        try:
            self.client = AgentClient(self.road.command, self)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            self._lose("tool-missing" if missing else "failed", f"{self.road.program}: {error.strerror}")
            return None
        self.client.send(bootstrap.script(len(self._agent)))
        return self.client

    def put(self, ask: Ask) -> None:
        """Ask this when the agent is there; the answer appears in `answer`."""
        self.answer, self._ask, self._early = self._lost if self.again or self.state == "lost" else None, ask, []
        if self.state == "ready":
            self.answer = None
            self._send(ask)

    def tick(self, now: float, connect_limit_s: float) -> None:
        """What only time tells: an end, a deadline."""
        if self.state == "ending":
            status = self.client.process.poll() if self.client is not None else None
            if status is not None or now >= self._deadline:
                self._conclude(status)
        elif self.connecting and now - self.began > connect_limit_s:
            what = "no shell answered" if self.state == "calling" else "its Python did not start the agent"
            self.fail("timed-out", f"{what} within {connect_limit_s:.0f} s")
        elif self.state == "ready" and self._ask is not None and self.answer is None and now > self._deadline:
            self.fail("timed-out", "it did not answer in time")

    def fail(self, reason: UnseenReason, detail: str) -> None:
        """Give the host up. Its process is ended, what it said last is kept."""
        if self.state in ("lost", "ending"):
            return
        self._why = (reason, detail)
        if self.client is not None:
            self.client.abort()

    def retry(self) -> None:
        """Be called again, if lost."""
        if self.state == "lost":
            self.state, self.again = "waiting", True

    # What the client tells.

    def heard(self, data: bytes, *, error: bool) -> None:
        """Bytes of the far side."""
        if error:
            self._words += data
            del self._words[:-_WORDS]
            self._complained += len(data)
            if self._complained > NOISE_LIMIT:
                self.fail("failed", "no end of complaints")
            return
        if self._why is not None:
            return
        try:
            for message in self._reader.feed(data):
                self._take(decode(message, _Said))
        except TooMuch as much:
            self.fail("failed", str(much))
        except (DecodeError, msgspec.DecodeError) as wrong:
            self.fail("failed", f"sent what is no answer of an agent: {wrong}")

    def closed(self) -> None:
        """Its output ended."""
        self.state, self._deadline = "ending", time.monotonic() + _ENDING_S

    # What follows from that.

    def _take(self, said: _Said) -> None:
        if self.client is None:
            return
        if said.go is not None and self.state == "calling":
            self.state = "starting"
            self.client.send(self._agent, _order(idle_s=IDLE_S))
        elif said.hello is not None and self.state == "starting":
            self.state, self.again, self._machine = "ready", False, said.machine
            self.took_s = time.monotonic() - self.began
            self._lost = None
            if self._ask is not None and self.answer is None:
                self._send(self._ask)
        elif self._ask is not None and said.id == self._ask.id and self.answer is None:
            if said.error is not None:
                self.fail("failed", f"its agent could not answer: {said.error}")
            elif said.sample is not None:
                self._answered(said.sample, self._ask)

    def _send(self, ask: Ask) -> None:
        # A py-spy of this machine is no py-spy over there: the far side finds its own, or gets ours.
        self._deadline = time.monotonic() + ask.deadline_s + GRACE_S
        if self.client is not None:
            self.client.send(encode(replace(ask, pyspy=None)) + b"\n")

    def _answered(self, sample: Sample, ask: Ask) -> None:
        missing = any(one.reason == "tool-missing" and one.probe in ("stacks", "native") for one in sample.unseen)
        if missing and self._tool is not None and not self._tool_sent and self.client is not None:
            self._tool_sent = True
            if lines := self._tool.orders(self._machine):
                self._early = list(sample.ended)
                self.client.send(*lines)
                self._send(ask)
                self._deadline += TOOL_S
                return
        self.answer = replace(sample, ended=[*self._early, *sample.ended]) if self._early else sample
        self._settled()

    def _conclude(self, status: int | None) -> None:
        words = lastwords.essence((bytes(self._reader.noise) + b"\n" + self._words).decode("utf-8", "backslashreplace"))
        if self._why is not None:
            reason, detail = self._why
            if words:
                reason, detail = lastwords.reason(words, reason), f"{detail}; last words: {words}"
        else:
            was_there = self.took_s is not None
            ended = f"{self.road.program} ended" + (f" with status {status}" if status is not None else "")
            detail = f"{ended}: {words}" if words else f"{ended} and said nothing"
            reason = lastwords.reason(words, "gone" if was_there else "failed")
        if self.client is not None:
            self.client.kill()
        self._lose(reason, detail)

    def _lose(self, reason: UnseenReason, detail: str) -> None:
        self.state, self.again = "lost", False
        self.took_s, self._tool_sent = None, False
        self._lost = Lost(self.road.host, reason, detail)
        waited = self._ask is not None and self.answer is None
        if self._ask is not None and not isinstance(self.answer, Sample):
            self.answer = self._lost
        if waited:
            self._settled()


def _order(**order: object) -> bytes:
    return msgspec.json.encode({"order": order}) + b"\n"
