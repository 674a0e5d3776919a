"""Standard streams that are closed, full, or read by nobody: never the status of a verdict, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HANGDOC = f"'{sys.executable}' -m hangdoc"
_COMMANDS = ("--version", "--help", "ps --help", "agent --dump /dev/null")


def _shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words", _COMMANDS)
def test_a_closed_standard_output_drops_the_results_and_keeps_the_status(words: str) -> None:
    done = _shell(f"{_HANGDOC} {words} >&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", _COMMANDS)
def test_results_that_cannot_be_written_are_said_to_be_lost(words: str) -> None:
    done = _shell(f"{_HANGDOC} {words} >/dev/full")
    assert done.returncode == 74
    assert "Traceback" not in done.stderr
    assert words == "--version" or "No space left" in done.stderr


@pytest.mark.parametrize("words", _COMMANDS)
def test_a_reader_that_has_gone_changes_no_status(words: str) -> None:
    done = _shell(f"{{ sleep 1.5; {_HANGDOC} {words}; echo $? >&2; }} | true")
    assert done.stderr == "0\n"


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "0<&- 1>&- 2>&-"])
def test_complaints_that_nobody_can_read_cost_nothing_else(closed: str) -> None:
    assert _shell(f"{_HANGDOC} diagnose 4194305 {closed}").returncode == 2


def test_no_file_is_opened_in_place_of_a_closed_stream() -> None:
    code = "import sys; from hangdoc.cli import screen; screen.prepare(); sys.stderr.write(str(open('/dev/null').fileno() > 2))"
    for closed in ("0<&-", "1>&-", "0<&- 1>&-"):
        assert _shell(f"'{sys.executable}' -c \"{code}\" {closed}").stderr == "True"
