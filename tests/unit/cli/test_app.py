"""The command line as people call it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time

import pytest

import hangdoc
from hangdoc.cli import app
from hangdoc.cli.exits import Stop


def _call(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hangdoc", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **more},
    )


def test_version_is_instant() -> None:
    began = time.monotonic()
    done = _call("--version")
    seconds = time.monotonic() - began
    assert done.stdout == f"hangdoc {hangdoc.__version__}\n"
    assert seconds < 2, "the bar of 0.1 s is measured by make bench; this only finds an import of everything"
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hangdoc", "--version"], capture_output=True, text=True, check=True
    ).stderr
    assert not {"typer", "rich", "msgspec", "jinja2"} & {
        line.rpartition("|")[2].strip() for line in loaded.splitlines()
    }


def test_help_names_every_command() -> None:
    done = _call("--help")
    assert done.returncode == 0
    for name, purpose in app.COMMANDS.items():
        assert name in done.stdout
        assert purpose.split()[0] in done.stdout


@pytest.mark.parametrize(
    "name", [name for name in app.COMMANDS if importlib.util.find_spec(f"hangdoc.cli.{name.replace('-', '_')}")]
)
def test_every_command_explains_itself(name: str) -> None:
    done = _call(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: hangdoc" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense",),
        ("--nonsense",),
        ("demo", "--nonsense"),
        ("agent",),
        ("diagnose", "--pid", "1", "2"),
        ("watch", "--pid", "1", "2"),
    ],
)
def test_wrong_usage_is_status_2_with_a_message(words: tuple[str, ...]) -> None:
    done = _call(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Stop("no such PID 7", "hangdoc ps lists them", 2), 2, "no such PID 7"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ValueError("oops"), 70, "ValueError: oops"),
    ],
)
def test_errors_become_one_message(
    error: BaseException, status: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(app, "_run", fail)
    assert app.run(["diagnose"]) == status
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "hangdoc", "--help"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 0
    assert done.stderr == b""


def test_output_that_the_terminal_cannot_show_is_escaped() -> None:
    done = _call("nönsense", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(
    not all(importlib.util.find_spec(f"hangdoc.cli.{name.replace('-', '_')}") for name in app.COMMANDS),
    reason="not every command is there yet",
)
@pytest.mark.parametrize(("typed", "offered"), [("hangdoc di", "diagnose"), ("hangdoc demo --", "--good")])
def test_completion(typed: str, offered: str) -> None:
    done = _call(_HANGDOC_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(typed.count(" ")))
    assert offered in done.stdout.split()


def test_results_that_nobody_reads_do_not_change_the_status() -> None:
    code = "import sys; from hangdoc.cli import screen; screen.write('x' * 1_000_000); screen.write('y'); sys.exit(5)"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run([sys.executable, "-c", code], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 5, done.stderr


def test_a_digit_of_another_kind_is_no_pid() -> None:
    done = _call("diagnose", "²")
    assert done.returncode == 2
    assert "no host name" in done.stderr


def test_a_command_does_not_load_what_it_does_not_use() -> None:
    script = (
        "import sys; from hangdoc.cli.app import run; run(['watch', '--help']); sys.exit('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
