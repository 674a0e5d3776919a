"""Puts the miniature server on stage: starts it in a folder of its own, waits for its fate, and clears up."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

MINIATURE = Path(__file__).parent / "miniature"
PLANTED_RANK = 1
READY_LINE = "The server is fired up and ready to roll!"
_FIRST_PORT, _TRIES = 10_000, 50
_SHARDS = 7
_SHARD_BYTES = 1 << 20
# The launcher ends by itself after this long, whatever happens to us.
_LIFE_S = 900


class StageError(Exception):
    """The miniature did not get where it should; the message says how far it came."""


class Stage:
    """One run of the miniature. A context manager: leaving it ends every process and removes every file."""

    def __init__(self, *, hang: bool) -> None:
        self.hang = hang
        self.folder = Path(tempfile.mkdtemp(prefix="hangdoc-demo-"))
        self.log = self.folder / "server.log"
        self._stamp = self.folder / "stamp"
        self.port = free_port()
        try:
            self._process = self._start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def pid(self) -> int:
        """PID of the launcher."""
        return self._process.pid

    def wait(self, timeout: float = 60.0) -> None:
        """Return when it is ready or, with `hang`, when the dead-lock is there. Raises StageError."""
        deadline = time.monotonic() + timeout
        while not self._settled():
            if self._process.poll() is not None:
                raise StageError(
                    f"the miniature server ended with status {self._process.returncode}: {self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise StageError(f"the miniature server did not settle in {timeout:.0f} s: {self._last_words()}")
            time.sleep(0.1)

    @property
    def planted(self) -> int | None:
        """PID of the scheduler that dead-locked, which it wrote down itself just before."""
        with contextlib.suppress(OSError, ValueError):
            return int(self._stamp.read_text())
        return None

    def close(self) -> None:
        """End every process of the miniature and remove its files. May be called twice."""
        self._process.terminate()  # a launcher that ends in order collects its children
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # a session of its own: the group is the launcher and all its children
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(3)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _settled(self) -> bool:
        return self.planted is not None if self.hang else READY_LINE in self._log_text()

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def _last_words(self) -> str:
        lines = self._log_text().splitlines()
        return lines[-1] if lines else "it wrote nothing"

    def _start(self) -> subprocess.Popen[bytes]:
        model = self.folder / "model"
        model.mkdir()
        for number in range(1, _SHARDS + 1):
            (model / f"model-{number:05d}-of-{_SHARDS:05d}.safetensors").write_bytes(bytes(_SHARD_BYTES))
        words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(model)]
        words += ["--tp", "2", "--host", "127.0.0.1", "--port", str(self.port)]
        # Append mode: several processes write to it.
        with self.log.open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C reaches only us, and we clear up
            )

    def _environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("MINIATURE_")}
        own |= {
            "PYTHONPATH": str(MINIATURE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "MINIATURE_PARENT": str(os.getpid()),
            "MINIATURE_SECONDS": str(_LIFE_S),
            "MINIATURE_STAMP": str(self._stamp),
        }
        if self.hang:
            own["MINIATURE_HANG"] = str(PLANTED_RANK)
        return own


def free_port() -> int:
    """A TCP port that nobody has; where that can be, none of those that the kernel gives to whoever asks for any, as ranks do."""
    first = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    own = range(_FIRST_PORT, max(first, _FIRST_PORT))
    for port in (*random.sample(own, min(_TRIES, len(own))), 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found: int = probe.getsockname()[1]
            return found
    raise StageError("there is no free port")
