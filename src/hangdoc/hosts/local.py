"""The channel to an agent that is a child of ours: on this machine, or behind any command that starts it elsewhere."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..agent import bootstrap
from ..codec import DecodeError, decode, encode
from ..model.ask import Ask
from ..model.frozen import dataclass, replace
from ..model.sample import Sample
from .channel import ChannelError
from .frames import Reader, TooMuch

if TYPE_CHECKING:
    from ..agent.standing import Standing

_GRACE_S = 3.0  # beyond an ask's own deadline: starting to run, writing and reading the answer
_START_S = 15.0  # for the first line of the agent; a cold Python on a loaded machine is slow
_END_S = 2.0  # for the agent to end after its stdin was closed
_FOLDER = Path(__file__).parents[2]  # where this package is
_WORDS_LIMIT = 64 << 10  # of its stderr, the last ones


@dataclass(frozen=True)
class _Line:
    """One line of the agent."""

    sample: Sample | None = None
    error: str | None = None
    id: int | None = None


class CommandChannel:
    """An agent started by `command`, which gets the zip first, if there is one, and then questions on its stdin."""

    def __init__(self, host: str, command: list[str], agent: bytes = b"", start_s: float = _START_S) -> None:
        """Start the agent and wait for its hello. Raises ChannelError."""
        self.host = host
        self._words: deque[bytes] = deque()
        self._reader = Reader()
        self._messages: deque[bytes] = deque()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us, the agent ends when we close its stdin
                bufsize=0,
            )
        except OSError as error:
            raise ChannelError(f"the agent on {host} could not be started: {command[0]}: {error.strerror}") from error
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(self._fd(pipe), False)
        try:
            deadline = time.monotonic() + start_s
            self._write(agent, deadline)
            self._read(deadline)  # its hello
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Number of the local process: the agent itself, or the command that reaches it."""
        return self._process.pid

    def ask(self, ask: Ask) -> Sample:
        """Send one question and wait for its sample, at most `ask.deadline_s` and a grace. Raises ChannelError."""
        deadline = time.monotonic() + ask.deadline_s + _GRACE_S
        self._write(encode(ask) + b"\n", deadline)
        while True:
            line = self._read(deadline)
            if line.id is not None and line.id != ask.id:
                continue  # a late answer to a question that was given up
            if line.error is not None:
                raise ChannelError(f"the agent on {self.host} could not answer: {line.error}", self.last_words)
            if line.sample is not None:
                return line.sample

    def close(self) -> None:
        """End the agent and leave nothing behind; its children die with it. May be called again."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # Its session is its own, so the group holds nothing else; each disposable child has a session of its own
            # and dies by the parent-death signal.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_END_S)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def last_words(self) -> str:
        """What the other side wrote that is no answer, the end of it."""
        said = b"".join((bytes(self._reader.noise), *self._words))
        return said.decode("utf-8", "backslashreplace").strip()[-2000:]

    @staticmethod
    def _fd(pipe: object) -> int:
        number: int = pipe.fileno()  # type: ignore[attr-defined]
        return number

    def _fail(self, what: str) -> ChannelError:
        self._listen()
        status = self._process.poll()
        ended = "" if status is None else f" (it ended with status {status})"
        return ChannelError(f"the agent on {self.host} {what}{ended}", self.last_words)

    def _listen(self) -> None:
        """Take what is on stderr, so that the other side never blocks on it; keep the end."""
        pipe = self._process.stderr
        if pipe is None or pipe.closed:
            return
        try:
            while raw := os.read(pipe.fileno(), 1 << 16):
                self._words.append(raw)
                while sum(map(len, self._words)) > _WORDS_LIMIT and len(self._words) > 1:
                    self._words.popleft()
            pipe.close()
        except BlockingIOError:
            pass

    def _wait(self, deadline: float, *, writing: bool) -> None:
        """Wait until the agent's pipe can be used; listens to stderr meanwhile."""
        wanted = self._fd(self._process.stdin if writing else self._process.stdout)
        while True:
            poller = select.poll()
            poller.register(wanted, select.POLLOUT if writing else select.POLLIN)
            if self._process.stderr is not None and not self._process.stderr.closed:
                poller.register(self._process.stderr.fileno(), select.POLLIN)
            ready = {fd for fd, _ in poller.poll(max(0.0, deadline - time.monotonic()) * 1000)}
            if ready - {wanted}:
                self._listen()
            if wanted in ready:
                return
            if time.monotonic() >= deadline:
                raise self._fail("did not answer in time")

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        if self._process.stdin is None or self._process.stdin.closed:
            raise ChannelError(f"the channel to {self.host} is closed", self.last_words)
        while view:
            self._wait(deadline, writing=True)
            try:
                view = view[os.write(self._fd(self._process.stdin), view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                self._settle()
                raise self._fail("ended") from error

    def _settle(self) -> None:
        """Give a process whose pipe broke a moment to end, so that its status and last words are known."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)

    def _read(self, deadline: float) -> _Line:
        while not self._messages:
            self._wait(deadline, writing=False)
            try:
                more = os.read(self._fd(self._process.stdout), 1 << 20)
                self._messages.extend(self._reader.feed(more))
            except BlockingIOError:
                continue
            except TooMuch as error:
                raise ChannelError(f"{self.host} {error}", self.last_words) from error
            if not more:
                self._settle()
                raise self._fail("ended")
        try:
            return decode(self._messages.popleft(), _Line)
        except (DecodeError, msgspec.DecodeError) as error:
            raise ChannelError(f"{self.host} sent what is no answer of an agent: {error}", self.last_words) from error


class LocalChannel:
    """This machine. Questions that are one of many go to a standing child of this process (agent/standing.py), for as long
    as nothing blocks; all others to an agent, run by our own Python from the files that are sent to any other host."""

    def __init__(self) -> None:
        """Nothing is started before the first question."""
        self.host = os.uname().nodename
        self._standing: Standing | None = None
        self._blocked = False
        self._agent: CommandChannel | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Number of the process that was asked last; None before the first question."""
        known = self._agent or self._standing
        return known.pid if known is not None else None

    def ask(self, ask: Ask) -> Sample:
        """Send one question and wait for its sample, at most `ask.deadline_s` and a grace. Raises ChannelError."""
        if self._closed:
            raise ChannelError(f"the channel to {self.host} is closed")
        if ask.together and not self._blocked:
            began = time.monotonic()
            sample = self._together(ask)
            if sample is not None:
                return sample
            self._blocked = True
            ask = self._child.left(ask, began)
        elif self._standing is not None and not self._standing.allowed:
            ask = replace(ask, together=False)  # what blocked ours would block the agent's, too
        if self._agent is None:
            self._agent = CommandChannel(self.host, bootstrap.here(sys.executable, str(_FOLDER)))
        return self._agent.ask(ask)

    def close(self) -> None:
        """End the child and the agent and leave nothing behind. May be called again."""
        self._closed = True
        if self._standing is not None:
            self._standing.end()
        if self._agent is not None:
            self._agent.close()

    @property
    def _child(self) -> Standing:
        if self._standing is None:
            from ..agent.isolate import Nursery  # noqa: PLC0415 - 50 ms that only a watch of this machine needs
            from ..agent.standing import Standing  # noqa: PLC0415

            self._standing = Standing(Nursery())
        return self._standing

    def _together(self, ask: Ask) -> Sample | None:
        message = self._child.answer(ask)
        if message is None:
            return None
        try:
            return decode(message, _Line).sample
        except (DecodeError, msgspec.DecodeError):
            return None  # the agent is asked the same
