"""One command in ClusterShell's engine: bytes in both ways, an end that is seen, and no waiting for a process.

ClusterShell's own clients end the host name's command line without `--`, split output into lines in quadratic time without
a limit, and wait for a process that closed its output and lives on, which stops the engine for all others.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ClusterShell.Engine.Engine import E_READ, E_WRITE, FANOUT_UNLIMITED
from ClusterShell.Worker.EngineClient import EngineClient
from ClusterShell.Worker.Worker import Worker

_READ = 1 << 18


class Listener(Protocol):
    """Who hears of what a client's process does. Must not raise."""

    def heard(self, data: bytes, *, error: bool) -> None:
        """Bytes of its output, or of its error output."""

    def closed(self) -> None:
        """It closed its output, or was ended."""


class AgentClient(EngineClient):  # type: ignore[misc]  # ClusterShell has no types
    """A running command. `listener` hears what it says."""

    def __init__(self, command: Sequence[str], listener: Listener) -> None:
        """Start the command. Raises OSError."""
        worker = Worker(None)
        worker._fanout = FANOUT_UNLIMITED  # connections stay; how many are made at once is ours to count
        super().__init__(worker, None, stderr=True, timeout=-1, autoclose=True)
        self.listener = listener
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # no terminal to prompt on, and Ctrl-C is for us
        )
        self._queue: deque[memoryview] = deque()
        self._gently = False
        for name, pipe, way in (
            ("stdin", self.process.stdin, E_WRITE),
            ("stdout", self.process.stdout, E_READ),
            ("stderr", self.process.stderr, E_READ),
        ):
            assert pipe is not None  # noqa: S101 - for the type checker
            os.set_blocking(pipe.fileno(), False)
            # A master connection that ssh leaves in the background keeps stderr: only the output's end is the end.
            self.streams.set_stream(name, pipe.fileno(), way, retain=name == "stdout", closefd=False)

    def send(self, *parts: bytes) -> None:
        """Have this written as soon as it can be."""
        self._queue.extend(memoryview(part) for part in parts if part)
        if self.registered and "stdin" in self.streams:
            self._set_writing("stdin")

    def kill(self) -> None:
        """End the process and what it started on this machine, at once; its status is collected later."""
        if self.process.poll() is None:
            with contextlib.suppress(
                ProcessLookupError, PermissionError
            ):  # its session is its own, so the group is, too
                os.killpg(self.process.pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Close its pipes: the far side ends by itself, and so does the command."""
        self._gently = True
        self.abort()

    # What the engine calls.

    def _start(self) -> AgentClient:
        return self

    def _handle_read(self, sname: str) -> None:
        data = self._read(sname, _READ)  # raises EngineClientEOF at its end
        self.listener.heard(data, error=sname == "stderr")

    def _handle_write(self, sname: str) -> None:
        stream = self.streams[sname]
        while self._queue:
            try:
                written = os.write(stream.fd, self._queue[0])
            except BlockingIOError:
                self._set_writing(sname)
                return
            except OSError:  # nobody reads any more; the end of its output says the rest
                self._queue.clear()
                if self._engine:
                    self._engine.remove_stream(self, stream)
                return
            self._queue[0] = self._queue[0][written:]
            if not self._queue[0]:
                self._queue.popleft()

    def _close(self, abort: bool, timeout: bool) -> None:  # noqa: ARG002, FBT001 - the engine's signature
        self.invalidate()
        self._last_words()
        self.streams.clear()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if abort and not self._gently:
            self.kill()
        self.listener.closed()

    def _last_words(self) -> None:
        pipe = self.process.stderr
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None and (data := os.read(pipe.fileno(), 1 << 16)):  # as much as a pipe holds
                self.listener.heard(data, error=True)
