"""Where else a watch tells what it knows: a service manager, a metrics file, a command of the user's."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

from ..codec import report_json
from ..model.report import Report
from ..model.words import VERDICTS

_EXEC_S = 60.0  # a command that gets the report has to end by then
_EXTEND_S = 60  # how long a service may take from now on, said while progress is real
_EXTEND_EVERY_S = 10.0
_TEXTFILE_EVERY_S = 5.0


class Notifier:
    """The protocol of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. Without one it says nothing."""

    def __init__(self, address: str | None = None) -> None:
        given = os.environ.get("NOTIFY_SOCKET", "") if address is None else address
        self.address = "\0" + given[1:] if given.startswith("@") else given
        self._extended_at = float("-inf")
        self._status = ""

    def tell(self, report: Report, *, moves: bool) -> None:
        """Status, and more time while `moves`."""
        now = time.monotonic()
        words = []
        if moves and now - self._extended_at >= _EXTEND_EVERY_S:
            self._extended_at = now
            words.append(f"EXTEND_TIMEOUT_USEC={_EXTEND_S * 1_000_000}")
        phase = f" in {report.phase.id}" if report.phase else ""
        status = f"STATUS={report.verdict}{phase}"
        if status != self._status:
            self._status = status
            words.append(status)
        if words:
            self.send("\n".join(words))

    def ready(self) -> None:
        """The server serves."""
        self.send("READY=1\nSTATUS=ready")

    def send(self, text: str) -> None:
        """One datagram; a service manager that does not listen is no reason to stop."""
        if not self.address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(text.encode(), self.address)


def metrics(report: Report) -> str:
    """The report as Prometheus text (exposition format 0.0.4)."""
    labels = f'engine="{_escaped(report.engine.name)}"'
    lines = ["# HELP hangdoc_verdict 1 for the verdict that holds.", "# TYPE hangdoc_verdict gauge"]
    lines += [f'hangdoc_verdict{{{labels},verdict="{one}"}} {int(one == report.verdict)}' for one in VERDICTS]
    if report.phase is not None:
        now = report.phase
        lines += ["# HELP hangdoc_phase The step of the start, counted from 1.", "# TYPE hangdoc_phase gauge"]
        lines += [f'hangdoc_phase{{{labels},phase="{_escaped(now.id)}"}} {now.ordinal}']
    clocks = report.clocks
    for name, value, what in (
        ("age", clocks.age_s, "Since the root process started."),
        ("quiet", clocks.quiet_s, "Since anything moved."),
        ("log_silent", clocks.since_log_s, "Since the log grew."),
    ):
        if value is not None:
            metric = f"hangdoc_{name}_seconds"
            lines += [f"# HELP {metric} {what}", f"# TYPE {metric} gauge", f"{metric}{{{labels}}} {value:.1f}"]
    lines += ["# HELP hangdoc_written_seconds When this was written.", "# TYPE hangdoc_written_seconds gauge"]
    lines += [f"hangdoc_written_seconds{{{labels}}} {report.hangdoc.at:.1f}"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Textfile:
    """A file for the textfile collector of node_exporter, replaced in one step."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | None = None
        self._due = float("-inf")

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() >= self._due

    def write(self, report: Report) -> None:
        """Write it; an error is kept in `error`, for a full disk must not end the watch."""
        import tempfile  # noqa: PLC0415 - 2 ms that a watch without such a file does not spend

        self._due = time.monotonic() + _TEXTFILE_EVERY_S
        try:
            # The collector reads *.prom only, so it never sees the half-written one.
            descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.", suffix=".tmp")
        except OSError as error:
            self.error = error
            return
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(metrics(report))
            Path(name).chmod(0o644)
            Path(name).replace(self.path)
        except OSError as error:
            self.error = error
            with contextlib.suppress(OSError):
                Path(name).unlink()


def run_with_report(command: str, report: Report) -> str | None:
    """Run a command (words as in a shell, but no shell) with the report as JSON on its stdin. Returns what went wrong."""
    try:
        words = shlex.split(command)
        text = report_json(report).encode() + b"\n"
        # Its output goes to our standard error: standard output may be read as JSON.
        done = subprocess.run(words, input=text, stdout=sys.stderr.fileno(), timeout=_EXEC_S, check=False)
    except (OSError, ValueError) as error:
        return f"{command}: {error}"
    except subprocess.TimeoutExpired:
        return f"{command}: did not end within {_EXEC_S:.0f} s and was killed"
    return f"{command}: ended with status {done.returncode}" if done.returncode else None
