"""`--log-from`: what a command of this machine prints is a log of the launch."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets import running
from test_diagnose import hangdoc

from hangdoc.hosts import logcommand
from hangdoc.hosts.local import LocalChannel
from hangdoc.hosts.logcommand import LogCommand
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Log, Sample

LINES = [f"INFO line {number}" for number in range(3)]
FORMS = {
    "plain": "".join(f"{one}\n" for one in LINES),
    "kubectl": "".join(f"2026-11-29T18:42:15.{number:09d}Z {one}\n" for number, one in enumerate(LINES)),
    "cri": "".join(f"2026-11-29T18:42:15.{number:09d}Z stdout F {one}\n" for number, one in enumerate(LINES)),
    "docker": "".join(json.dumps({"log": f"{one}\n", "time": "x"}, separators=(",", ":")) + "\n" for one in LINES),
}


Make = Callable[[str], LogCommand]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """This machine, with a log from a command."""
    monkeypatch.setattr(logcommand, "AGAIN_S", 0.1)
    with contextlib.ExitStack() as ends:

        def make(words: str) -> LogCommand:
            return ends.enter_context(contextlib.closing(LogCommand(LocalChannel(), words)))

        yield make


def asked(made: LogCommand, offsets: dict[str, int] | None = None) -> tuple[Sample, list[Log]]:
    """A sample, and the logs in it that a command gave."""
    sample = made.ask(Ask(1, ("processes", "logs"), pids=(os.getpid(),), log_offsets=offsets or {}))
    return sample, [log for log in sample.logs if log.via == "option"]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_command_prints_is_a_log_without_its_wrapping(command: Make, tmp_path: Path, form: str) -> None:
    (tmp_path / "out").write_text(FORMS[form])
    made = command(f"cat {tmp_path}/out")
    _, (log,) = asked(made)
    assert "".join(chunk.text for chunk in log.chunks) == FORMS["plain"]
    assert (log.lines, log.size) == (3, len(FORMS[form]))


def test_it_is_run_again_and_only_what_is_new_is_told(command: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("one\n")
    made = command(f"cat {out}")
    _, (first,) = asked(made)
    out.write_text("one\ntwo\n")
    texts: list[str] = []
    for _ in range(40):
        time.sleep(0.1)
        _, (log,) = asked(made, {made.path: first.chunks[0].size})
        texts = [chunk.text for chunk in log.chunks]
        if texts:
            break
    assert texts == ["two\n"]


def test_one_that_follows_is_read_as_it_goes_and_ends_with_us(command: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789\n")
    made = command(f"tail -f {out}")
    _, (log,) = asked(made)
    assert "abcdefghij" not in log.chunks[0].text
    pid = made._process.pid
    made.close()
    assert not Path(f"/proc/{pid}").exists()


def test_one_that_fails_is_told(command: Make) -> None:
    made = command("sh -c 'echo pods x not found >&2; exit 1'")
    sample, logs = asked(made)
    assert logs == []
    (row,) = [one for one in sample.unseen if one.probe == "logs" and "output of" in one.detail]
    assert "status 1: pods x not found" in row.detail


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text(FORMS["kubectl"])
    with running([sys.executable, "-u", "-c", "print('ready'); import time; time.sleep(60)"]) as (pid, _):
        report = json.loads(hangdoc("diagnose", pid, "--json", "--log-from", f"cat {tmp_path}/out").stdout)
        assert [log["tail"][-1] for log in report["logs"] if log["via"] == "option"] == ["INFO line 2"]
        done = hangdoc("diagnose", pid, "--log-from", "/nonexistent/kubectl logs x")
        assert (done.returncode, "cannot be run" in done.stderr) == (2, True)
