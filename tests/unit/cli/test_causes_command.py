"""`hangdoc causes` and `--causes`: pages, checks and what is said of files that are no causes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangdoc.cli import app
from hangdoc.rules import load
from hangdoc.shipped import FOLDERS

SHIPPED = FOLDERS["causes"]


@pytest.fixture(autouse=True)
def nobodys_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No causes of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "hangdoc" / "causes"


def test_all_are_listed_and_each_has_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["causes"]) == 0
    listed = capsys.readouterr().out
    assert {line.split()[0] for line in listed.splitlines()} == {one.id for one in load.shipped()}
    assert app.run(["causes", "show", "rank-stopped"]) == 0
    page = capsys.readouterr().out
    assert "kill -CONT PID" in page
    assert "changes the target" in page


def test_an_unknown_one_is_told_with_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["causes", "show", "stopped"]) == 2
    assert "rank-stopped" in capsys.readouterr().err


def test_a_file_is_checked_and_its_facts_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["causes", "check", str(SHIPPED / "any" / "rank-stopped.yaml")]) == 0
    assert "asks for mechanism (threads)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fact: state, is: T", "fact: moon, is: T", "moon"),
        ("mechanism: stopped, state: T", "mechanism: sleep, state: T", "expected hit, got clear"),
        ("fact: state, is: T", "fact: state, matches: '(a'", "pattern"),
        ("status: stable", "status: stable\nstatus: stable", "twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    old: str, new: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (SHIPPED / "any" / "rank-stopped.yaml").read_text()
    assert old in text
    bad = tmp_path / "rank-stopped.yaml"
    bad.write_text(text.replace(old, new))
    assert app.run(["causes", "check", str(bad)]) == 2
    assert said in capsys.readouterr().err


def test_a_variable_that_no_probe_reads_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (SHIPPED / "any" / "rank-stopped.yaml").read_text()
    own = tmp_path / "rank-stopped.yaml"
    own.write_text(text.replace("  all:\n", "  all:\n    - {fact: env, name: MY_SECRET, set: false}\n", 1))
    assert app.run(["causes", "check", str(own)]) == 2
    assert "MY_SECRET" in capsys.readouterr().err


def test_a_folder_that_is_none_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["causes", "list", "--causes", str(tmp_path / "nowhere")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_broken_cause_of_ones_own_does_not_stop_anything(
    nobodys_own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobodys_own.mkdir(parents=True)
    (nobodys_own / "broken.yaml").write_text("a: &x 1")
    assert app.run(["causes", "list"]) == 0
    heard = capsys.readouterr()
    assert "broken.yaml" in heard.err
    assert "rank-stopped" in heard.out
