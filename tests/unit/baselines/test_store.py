"""Baseline files: what is written is read again, and nothing that is hostile or nonsense gets in."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.baselines import store
from hangdoc.baselines.merge import merged
from hangdoc.model.baseline import BaselineLine
from hangdoc.shipped import FOLDERS

from .good import one_run

FIRST = store.text(one_run())


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "good.yaml"
    store.write(one_run(), path)
    assert store.read(path) == one_run()
    assert list(path.parent.iterdir()) == [path]


def test_the_head_alone_says_of_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    store.write(one_run(), path)
    head = store.read_head(path)
    assert head.configuration == one_run().configuration
    assert not head.phases


def test_a_further_run_changes_few_lines_of_the_file() -> None:
    rows = set(FIRST.splitlines())
    more = store.text(merged(one_run(), one_run(61.0)))
    assert len(set(more.splitlines()) - rows) <= 6


@given(st.text(max_size=300).filter(lambda text: "\x00" not in text))
def test_any_text_is_read_or_refused_with_words(text: str) -> None:
    with pytest.raises(store.BaselineError, match=r"."):
        store.parse(text, "file")


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=80))
def test_any_line_survives_the_file(text: str) -> None:
    one = replace(one_run(), lines=(BaselineLine(text, None, (1.0,)),))
    assert store.parse(store.text(one), "file") == one


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("hangdoc.baseline/1", "hangdoc.baseline/2"), "newer hangdoc"),
        (("hangdoc.baseline/1", "something/1"), "this hangdoc reads"),
        (("name: good", "name: ../../etc/passwd"), "no name for a baseline"),
        (("name: good", "name: good\nnonsense: 1"), "no such key: nonsense"),
        (("engine: sglang", "engine: sglang\n  colour: red"), "no such key: colour"),
        (("start_s: [20.0]", "start_s: [20.0, 3.0]"), "2 figures for 1 runs"),
        (("start_s: [20.0]", "start_s: [-4]"), "cannot be"),
        (("start_s: [20.0]", "start_s: [.nan]"), "cannot be"),
        (("start_s: [20.0]", "start_s: [.inf]"), "cannot be"),
        (("start_s: [20.0]", "start_s: [soon]"), "phases"),
        (("lines: 90", "lines: 90, read_bytes: -1"), "cannot be"),
        (("caches: warm", "caches: lukewarm"), "caches are one of"),
        (("engine: sglang", "engine: sglang\n  weight_bytes: -5"), "weight_bytes"),
        (("id: weight-load", "id: import"), "twice"),
        (("id: weight-load", "id: wait-load"), "phases"),
        (("ready_s: 60.0", "ready_s: sixty"), "ready_s"),
        (("name: good", "name: &a good"), "anchors"),
        (("name: good", "name: [[[[[[[[[[[[1]]]]]]]]]]]]"), "nested deeper"),
        (("name: good", "name: !!python/object/apply:os.system ['true']"), "the YAML tag"),
        (("name: good", "name: 2026-13-45"), "month"),
    ],
)
def test_nonsense_is_refused_with_its_key(change: tuple[str, str], said: str) -> None:
    bent = FIRST.replace(*change)
    assert bent != FIRST
    with pytest.raises(store.BaselineError, match=said):
        store.parse(bent, "file")


def test_a_file_that_was_cut_off_is_refused() -> None:
    with pytest.raises(store.BaselineError):
        store.parse(FIRST[: len(FIRST) // 2 - 7], "file")


def test_quantiles_edited_by_hand_do_not_count() -> None:
    bent = FIRST.replace("p95_s: 10.0", "p95_s: 9999.0")
    assert store.parse(bent, "file") == one_run()


def test_a_million_lines_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(FIRST + "- {text: x, first_s: [1.0]}\n" * 1_000_000)
    with pytest.raises(store.BaselineError, match="larger than"):
        store.read(path)
    path.write_text("schema: hangdoc.baseline/1\nname: x\nlines:\n" + "- []\n" * 110_000)
    with pytest.raises(store.BaselineError, match="nested deeper"):
        store.read(path)


def test_what_is_no_file_is_no_baseline(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    for path in (tmp_path, tmp_path / "fifo.yaml", tmp_path / "missing.yaml"):
        with pytest.raises(store.BaselineError):
            store.read(path)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "", ".hidden", "a/b", "x.yaml", "a" * 200, "-rf", "x\ny"])
def test_names_do_not_climb_out_of_the_folder(name: str) -> None:
    with pytest.raises(store.BaselineError):
        store.checked_name(name)


def test_the_users_own_come_before_shipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    shipped = sorted(FOLDERS["baselines"].glob("*.yaml"))
    assert shipped, "baselines ship with hangdoc"
    mine = store.user_folder() / shipped[0].name
    store.write(one_run(name=mine.stem), mine)
    assert store.find(mine.stem) == mine
    with pytest.raises(store.BaselineError, match="there is no baseline"):
        store.find("nobody-recorded-this")


@pytest.mark.parametrize("path", sorted(FOLDERS["baselines"].glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_baseline_can_be_read_and_says_where_it_comes_from(path: Path) -> None:
    one = store.read(path)
    assert one.name == path.stem
    assert one.runs
    assert store.text(one) == path.read_text(), "not in the form that hangdoc writes"
    if one.provenance.kind == "published":
        assert one.provenance.source
    else:
        assert len(one.runs) >= 1
        assert one.phases
