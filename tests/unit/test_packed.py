"""The pack of what ships: it is what the files say, and counts only while they are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hangdoc import shipped, yamls

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of two files in place of the causes, and a place for a pack; nothing is remembered before and after."""
    folder = tmp_path / "causes"
    (folder / "any").mkdir(parents=True)
    (folder / "any" / "a.yaml").write_text("id: a\n")
    (folder / "b.yaml").write_text("id: b\n")
    (folder / "README.md").write_text("no cause\n")
    monkeypatch.setattr(shipped, "FOLDERS", {"causes": folder})
    monkeypatch.setattr(shipped, "PACK", tmp_path / "shipped.pack")
    _forget()
    yield folder
    _forget()


def _forget() -> None:
    shipped._pack.cache_clear()
    shipped.documents.cache_clear()


def _read() -> dict[str, str]:
    _forget()
    return {name: msgspec.msgpack.decode(data)["id"] for name, data in shipped.documents("causes").items()}


@pytest.mark.parametrize("pack", [b"", b"odd", None])
def test_without_a_good_pack_the_files_are_read(clone: Path, pack: bytes | None) -> None:
    if pack is not None:
        shipped.PACK.write_bytes(pack)
    assert _read() == {"any/a.yaml": "a", "b.yaml": "b"}


def test_a_pack_is_read_in_place_of_its_files(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped.PACK.write_bytes(shipped.packed(sealed=False))
    monkeypatch.setattr(yamls, "load", lambda _: pytest.fail("read YAML"))
    assert _read() == {"any/a.yaml": "a", "b.yaml": "b"}


def test_a_pack_whose_files_have_changed_is_not_read(clone: Path) -> None:
    shipped.PACK.write_bytes(shipped.packed(sealed=False))
    same = clone / "b.yaml"
    before = same.stat()
    same.write_text("id: c\n")  # as long as it was
    os.utime(same, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert _read()["b.yaml"] == "c"
    (clone / "d.yaml").write_text("id: d\n")
    assert "d.yaml" in _read()
    same.unlink()
    assert list(_read()) == ["any/a.yaml", "d.yaml"]


def test_what_an_editor_leaves_beside_a_file_is_no_file_of_ours(clone: Path) -> None:
    shipped.PACK.write_bytes(shipped.packed(sealed=False))
    before = shipped._same(shipped._pack().parts["causes"], clone)  # type: ignore[union-attr]
    (clone / ".#b.yaml").symlink_to("somebody@somewhere.123")
    (clone / "gone.yaml").symlink_to("nothing.yaml")
    (clone / ".b.yaml").write_text("id: [")
    assert before
    assert shipped._same(shipped._pack().parts["causes"], clone)  # type: ignore[union-attr]
    shipped.PACK.unlink()
    assert _read() == {"any/a.yaml": "a", "b.yaml": "b"}


def test_the_pack_of_a_wheel_stands_for_its_files(clone: Path) -> None:
    shipped.PACK.write_bytes(shipped.packed(sealed=True))
    shutil.rmtree(clone)
    assert _read() == {"any/a.yaml": "a", "b.yaml": "b"}


def test_the_tool_packs_what_the_files_say(tmp_path: Path) -> None:
    _forget()
    program = "import pathlib, sys, prepare; prepare.pack(pathlib.Path(sys.argv[1]), sealed=False)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "pack")], env=environment, check=True)
    found = msgspec.msgpack.decode((tmp_path / "pack").read_bytes())
    assert set(found["parts"]) == {"engines", "causes", "baselines"}
    for part, files in found["parts"].items():
        assert {name: row[2] for name, row in files.items()} == shipped.documents(part)


def test_an_ordinary_look_reads_no_yaml_when_it_is_packed() -> None:
    """Only where there is a pack, which `make` makes."""
    if not shipped.PACK.is_file():
        pytest.skip("not packed")
    program = (
        "import sys; from hangdoc.cli import watch, known; from hangdoc.baselines import store; from hangdoc.engines import load;"
        " known.known_causes([]).patterns; list(store.heads()); load.profiles(); load.advice(); sys.exit('yaml' in sys.modules)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_DATA_HOME": "/nowhere",
        "XDG_CONFIG_HOME": "/nowhere",
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_causes_are_packed_without_the_examples_that_only_tests_and_their_check_read() -> None:
    _forget()
    for name, said in shipped.documents("causes").items():
        packed = msgspec.msgpack.decode(said)
        assert packed == {
            key: one
            for key, one in yamls.load((shipped.FOLDERS["causes"] / name).read_bytes()).items()
            if key != "examples"
        }
