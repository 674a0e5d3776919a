"""`--log-from`: the log that only a command of this machine can show, `kubectl logs --timestamps POD` for example.

Its output goes into an anonymous file, which is read as any other log: container records are unwrapped, secrets masked. A
command that ends is run again now and then; one that follows the log goes on.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import signal
import subprocess
import tempfile
import time
from typing import BinaryIO

from ..model.ask import Ask
from ..model.frozen import replace
from ..model.sample import Log, Sample, Unseen
from ..probes import logfile, redact
from .channel import Channel

AGAIN_S = 5.0  # between two runs of a command that ends
FIRST_S = 5.0  # for its first output
LIMIT = 512 << 20  # bytes of output
_HEAD, _TAIL = 1 << 20, 3 << 20
_COUNT_S = 0.7
_WORDS = 300


class LogCommand:
    """A channel whose samples also hold what the command prints."""

    def __init__(self, inner: Channel, command: str) -> None:
        """Start the command. ValueError where it is none, OSError where it cannot be started."""
        self.inner = inner
        self.host = inner.host
        self.words = shlex.split(command)
        if not self.words:
            raise ValueError("it is empty")
        self.path = "output of " + redact.mask(shlex.join(self.words))[:200]
        self._whole: BinaryIO | None = None  # of the last run that ended well
        self._failed = ""
        self._start()
        self._first = True

    @property
    def lost(self) -> list[object]:
        """The hosts that are lost, of a channel to several."""
        return list(getattr(self.inner, "lost", []))

    def ask(self, ask: Ask) -> Sample:
        """As the channel; the log is added where logs are asked for."""
        mine = {key: offset for key, offset in ask.log_offsets.items() if key.partition("#")[0] == self.path}
        others = {key: offset for key, offset in ask.log_offsets.items() if key not in mine}
        logs = tuple(path for path in ask.logs if path != self.path)
        sample = self.inner.ask(replace(ask, log_offsets=others, logs=logs))
        if "logs" not in ask.probes:
            return sample
        log = self._log(mine)
        unseen = [Unseen("logs", "failed", f"{self.path}: {self._failed}")] if self._failed else []
        return replace(sample, logs=[*sample.logs, *([log] if log else [])], unseen=[*sample.unseen, *unseen])

    def close(self) -> None:
        """End the command, and the channel. May be called again."""
        self._end()
        if self._whole is not None:
            self._whole.close()
        self.inner.close()

    def _start(self) -> None:
        self._out, self._errors = _anonymous(), _anonymous()
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            self.words,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._errors,
            start_new_session=True,
            preexec_fn=_bounded,  # noqa: PLW1509 - one thread, one system call
        )

    def _end(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(5)
        self._errors.close()
        if self._out is not self._whole:
            self._out.close()

    def _log(self, offsets: dict[str, int]) -> Log | None:
        patience = FIRST_S if self._first else 0.0
        self._first = False
        while self._process.poll() is None and time.monotonic() - self._began < patience:
            time.sleep(0.02)
        status = self._process.poll()
        if status is not None:
            self._ended(status)
        file = self._whole or self._out
        facts = os.fstat(file.fileno())
        if not facts.st_size:
            return None
        start, changed = logfile.start_of(self.path, facts.st_ino, facts.st_size, offsets)
        return Log(
            path=self.path,
            via="option",
            size=facts.st_size,
            lines=logfile.count_lines(file.fileno(), facts.st_size, _COUNT_S),
            mtime=facts.st_mtime,
            chunks=logfile.chunks(file.fileno(), start, facts, _HEAD, _TAIL, redact.mask),
            note=changed,
        )

    def _ended(self, status: int) -> None:
        """Keep what a run gave, and run it again when it is time."""
        if status != 0:
            self._errors.seek(0)
            words = " ".join(self._errors.read(4096).decode("utf-8", "backslashreplace").split())[-_WORDS:]
            self._failed = f"ended with status {status}" + (f": {words}" if words else "")
        elif self._out is not self._whole:
            self._failed = ""
            grown = self._whole is None or _size(self._out) != _size(self._whole)
            if grown:  # else the older one says when it last grew
                if self._whole is not None:
                    self._whole.close()
                self._whole = self._out
        if time.monotonic() - self._began >= AGAIN_S:
            self._end()
            self._start()


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _anonymous() -> BinaryIO:
    """A file without a name: in memory where that can be had, else one that is removed at once."""
    make = getattr(os, "memfd_create", None)
    if make is None:
        return tempfile.TemporaryFile(buffering=0)
    return os.fdopen(make("hangdoc-log"), "w+b", buffering=0)


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
