"""Causes as files: what is well made is read, and what is not is refused with its file and key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from hangdoc.rules import load
from hangdoc.rules.examples import failures
from hangdoc.rules.form import BadCause

GOOD: dict[str, Any] = {
    "id": "my-cause",
    "title": "Something is wrong",
    "phases": ["config"],
    "engines": [],
    "status": "preview",
    "symptom": "It stops.",
    "why": "For a reason.",
    "when": {"fact": "log", "matches": "wrong"},
    "evidence": "A line.",
    "next": [{"why": "look", "run": "ps -p {pid}"}],
    "cure": "Mend it.",
    "disprove": "Another line.",
    "false_positives": [],
    "sources": ["https://example.org/1"],
    "examples": [
        {"name": "yes", "expect": "hit", "launch": {"verdict": "hung", "phase": "config", "log": ["all wrong"]}},
        {"name": "no", "expect": "clear", "launch": {"verdict": "hung", "phase": "config", "log": []}},
    ],
}


def text(**changes: Any) -> str:
    return yaml.safe_dump({**GOOD, **changes}, sort_keys=False)


def test_a_good_one_is_read_and_its_examples_hold() -> None:
    found = load.parse(text(), "x")
    assert failures(found) == []
    assert (found.facts(), found.patterns()) == (("log",), ("wrong",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"when": {"fact": "moon", "is": 1}}, "no fact 'moon'"),
        ({"when": {"fact": "port", "is": "x"}}, "is number"),
        ({"when": {"facts": "port"}}, "facts"),
        ({"when": []}, "when"),
        ({"examples": []}, "at least one"),
        ({"examples": GOOD["examples"][:1]}, "near miss"),
        ({"examples": [*GOOD["examples"], {"name": "x", "expect": "hit", "launch": {"moon": 1}}]}, "moon"),
        ({"examples": [*GOOD["examples"], {"name": "x", "expect": "hit", "launch": {"port": "a"}}]}, "is number"),
        ({"examples": [*GOOD["examples"], {"name": "x", "expect": "hit", "launch": {"env": "a"}}]}, "family"),
        ({"id": "My_Cause"}, "lower-case"),
        ({"id": "../x"}, "lower-case"),
        ({"title": " "}, "title"),
        ({"phases": ["lunch"]}, "phases"),
        ({"engines": ["llama"]}, "engines"),
        ({"status": "done"}, "status"),
        ({"versions": "new"}, "range"),
        ({"sources": ["see the wiki"]}, "address"),
        ({"next": []}, "next"),
        ({"next": [{"why": "x", "run": "ps {moon}"}]}, "moon"),
        ({"next": [{"why": "x", "run": "ps {pid!r}"}]}, "pid"),
        ({"next": [{"why": "x", "run": "ps {pid.__class__}"}]}, "pid.__class__"),
        ({"next": [{"why": "x", "run": "ps {"}]}, "brace"),
        ({"next": [{"why": "x", "run": "ls"}, {"why": "x", "run": "rm -rf {path}"}]}, "changes"),
        ({"next": [{"why": "x", "run": "kill {pid}", "changes": True}]}, "first step"),
        ({"explains": ["my-cause"]}, "itself"),
        ({"extra": 1}, "extra"),
        ({"when": {"fact": "phase", "is": "lunch"}}, "lunch"),
    ],
)
def test_what_is_ill_made_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadCause, match=said):
        load.parse(text(**changes), "x.yaml")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("a: &x [1]\nb: *x\n", "anchors"),
        ("a: !!python/object/apply:os.system ['true']\n", "tag"),
        ("a: !ruby/object {}\n", "tag"),
        ("a: !!str 1\n", "tag"),
        ("a: 1\na: 2\n", "twice"),
        ("- 1\n", "mapping"),
        ("a: [\n", "no YAML"),
        ("", "mapping"),
        ("a: 1\n---\nb: 2\n", "no YAML"),
        ("a: " + "[" * 5000 + "]" * 5000, "nest"),
        ("a: {" + ", ".join(f"k{n}: 1" for n in range(6000)) + "}", "more than"),
        ("a: \x00", "no YAML"),
    ],
)
def test_hostile_documents_are_refused_at_once(document: str, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(BadCause, match=said):
        load.parse(document, "x.yaml")
    assert time.monotonic() - began < 2


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(BadCause, match="anchors"):
        load.parse("\n".join(rows), "bomb.yaml")


def test_files_that_are_none(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("#" * (load.SIZE + 1))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")
    renamed = tmp_path / "other.yaml"
    renamed.write_text(text())
    for path, said in ((large, "larger"), (binary, "UTF-8"), (renamed, "bears the id"), (tmp_path, "no file")):
        with pytest.raises(BadCause, match=said):
            load.read(path)
    with pytest.raises(BadCause, match="no such file"):
        load.read(tmp_path / "absent.yaml")


def test_what_an_editor_leaves_beside_a_file_is_no_cause(tmp_path: Path) -> None:
    _folder(tmp_path, a=[])
    (tmp_path / ".#a.yaml").symlink_to("somebody@somewhere.123")
    assert [one.name for one in load.files(tmp_path)] == ["a.yaml"]


def _folder(tmp_path: Path, **explains: list[str]) -> Path:
    for name, others in explains.items():
        (tmp_path / f"{name}.yaml").write_text(text(id=name, explains=others))
    return tmp_path


def test_causes_that_explain_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCause, match="explain each other"):
        load.catalogue([_folder(tmp_path, a=["b"], b=["c"], c=["a"])])


def test_an_unknown_cause_cannot_be_explained(tmp_path: Path) -> None:
    with pytest.raises(BadCause, match="no such cause"):
        load.catalogue([_folder(tmp_path, a=["nowhere"])])


def test_two_causes_with_one_id_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    _folder(tmp_path / "x", a=[])
    with pytest.raises(BadCause, match="two causes"):
        load.catalogue([_folder(tmp_path, a=[])])


def test_a_bad_cause_of_the_users_own_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "hangdoc" / "causes"
    own.mkdir(parents=True)
    (own / "my-cause.yaml").write_text(text())
    (own / "broken.yaml").write_text(text(id="broken", status="odd"))
    found, problems = load.with_own()
    assert {one.id for one in found.causes} == {one.id for one in load.shipped()} | {"my-cause"}
    assert len(problems) == 1
    assert "broken.yaml" in problems[0]
