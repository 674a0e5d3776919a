"""A command that is started and watched: output into a file of its own, signals sent on once, its status given back.

The command gets a session of its own. Ctrl-C at a terminal therefore reaches only hangdoc, which sends it on to the
command's whole process group, once, as the terminal would have done. Nothing of the command hangs on hangdoc: its output
is a file, no signal is asked for at hangdoc's end, and so `kill -9` of hangdoc leaves it running.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A terminal or a hang-up reaches the whole group; SIGTERM is sent to one process, as a supervisor does.
_TO_GROUP = (signal.SIGINT, signal.SIGHUP)
_END_S = 10.0  # between SIGTERM and SIGKILL
_READ = 1 << 20
_LINE = 4096


class CannotStart(Exception):
    """The command or its log could not be opened; the message says why."""


def default_log() -> Path:
    """A new name in the user's state folder (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime())
    return folder / "hangdoc" / f"watch-{stamp}-{os.getpid()}.log"


class Child:
    """The command, started. Our child in the sense of wait(2), nothing else."""

    def __init__(self, words: Sequence[str], log: Path, on_signal: Callable[[int], None] | None = None) -> None:
        """Start it. Raises CannotStart."""
        self.log = log
        self.signalled: list[int] = []  # what was sent on
        self._on_signal = on_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._before = {number: signal.getsignal(number) for number in _FORWARDED}
        out = _open_log(log)
        try:
            self.tail = Tail(log, os.fstat(out).st_size)
            for number, before in self._before.items():
                if before is not signal.SIG_IGN:  # nohup, or a shell's background job
                    signal.signal(number, self._forward)
            self._process = self._start(words, out)
        except BaseException:
            self._restore()
            raise
        finally:
            os.close(out)
        self.pid = self._process.pid
        for early in self.signalled:  # came while it was being started
            self.send(early)

    def _start(self, words: Sequence[str], out: int) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        try:
            return subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.closed or os.isatty(0) else None,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment,  # readiness is told by hangdoc, not by the command
            )
        except OSError as error:
            raise CannotStart(f"{words[0]} cannot be started: {error.strerror}") from error

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        self.signalled.append(number)
        self.send(number)
        if self._on_signal is not None:
            self._on_signal(number)

    def send(self, number: int, *, group: bool | None = None) -> None:
        """Send a signal: to its process group or to the command alone; by default as the signal's own custom is."""
        if self._process is None or self._process.returncode is not None:
            return  # not there yet, or reaped: the number may be another's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number in _TO_GROUP if group is None else group:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    @property
    def ended(self) -> bool:
        """Whether it has ended. It stays a zombie, for others to see how, until `status` is asked."""
        if self._started.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, seconds: float) -> bool:
        """Wait for its end at most so long; whether it has ended."""
        if self.ended:
            return True
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            time.sleep(seconds)
            return self.ended
        try:
            poller = select.poll()
            poller.register(pidfd, select.POLLIN)
            poller.poll(max(0, round(seconds * 1000)))
        finally:
            os.close(pidfd)
        return self.ended

    def status(self) -> int:
        """Its exit status, as a shell gives it: 128 and the number of the signal that ended it. Waits for its end."""
        code = self._started.wait()
        return code if code >= 0 else 128 - code

    def end(self) -> None:
        """End it and its process group: SIGTERM, and SIGKILL for what is left after ten seconds."""
        self.send(signal.SIGTERM, group=True)
        self.send(signal.SIGCONT, group=True)  # a stopped process would never see it
        deadline = time.monotonic() + _END_S
        while not self.wait(0.1) and time.monotonic() < deadline:
            pass
        self.send(signal.SIGKILL, group=True)
        self.status()

    def release(self) -> None:
        """Stop sending signals on, and leave it alone."""
        self._restore()
        if not self.ended:
            self._started.returncode = 0  # it is meant to outlive us: Popen's own complaint about that would be noise

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None  # noqa: S101 - for the type checker: __init__ has returned
        return self._process

    def _restore(self) -> None:
        for number, before in self._before.items():
            if before is not None and before is not signal.SIG_IGN:
                signal.signal(number, before)


def _open_log(log: Path) -> int:
    """The log, opened for appending: several processes write to it. Raises CannotStart."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        # O_NONBLOCK: the open of a FIFO that nobody reads must not hang.
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise CannotStart(f"the log {log} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(out).st_mode):
        os.close(out)
        raise CannotStart(f"the log {log} is no regular file: the server would hang when nobody reads it")
    os.set_blocking(out, True)
    return out


class Tail:
    """New lines of a file that somebody else writes."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path, self._offset, self._rest = path, offset, b""

    def lines(self, *, last: bool = False) -> list[str]:
        """Lines that were completed since the last call; with `last` also one without an end."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read(_READ)
        except OSError:
            fresh = b""
        self._offset += len(fresh)
        # A progress bar redraws its line with carriage returns: what a terminal would still show is the last of them.
        *whole, self._rest = (self._rest + fresh).split(b"\n")
        self._rest = self._rest[-_LINE:]
        if last and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        return [line.rstrip(b"\r").rpartition(b"\r")[2][:_LINE].decode("utf-8", "backslashreplace") for line in whole]
