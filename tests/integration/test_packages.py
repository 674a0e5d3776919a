"""Versions and modified files of a real site-packages tree, beside a real process."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from process_of import process_of

from hangdoc.model.sample import Process, Unseen
from hangdoc.probes import packages


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A virtual environment's site-packages with one wheel in it."""
    folder = tmp_path / "venv/lib/python3.11/site-packages"
    (folder / "vllm/model").mkdir(parents=True)
    rows = []
    for name in ("vllm/__init__.py", "vllm/model/good.py", "vllm/model/patched.py"):
        content = f"# {name}\n".encode()
        (folder / name).write_bytes(content)
        rows.append(f"{name},sha256={digest(content)},{len(content)}")
    info = folder / "vllm-0.32.0+cpu.dist-info"
    info.mkdir()
    (folder / "nvidia_nccl_cu12-2.27.3.dist-info").mkdir()
    (folder / "some_other-1.dist-info").mkdir()
    (info / "RECORD").write_text("\n".join([*rows, "vllm-0.32.0+cpu.dist-info/RECORD,,"]) + "\n")
    (folder / "vllm/model/patched.py").write_text("# changed by hand\n")
    (folder / "vllm/model/new.py").write_text("# added by hand\n")
    return folder


@pytest.fixture
def process(site: Path) -> Process:
    return replace(process_of(os.getpid()), cmdline=(str(site.parents[2] / "bin/python"), "-m", "vllm"))


def test_versions(process: Process, site: Path) -> None:
    unseen: list[Unseen] = []
    versions, modified = packages.read("/proc", process, (), unseen)
    assert versions is not None
    assert versions["vllm"] == "0.32.0+cpu"
    assert versions["nvidia-nccl-cu12"] == "2.27.3"
    assert "some-other" not in versions
    assert (modified, unseen) == (None, [])


def test_modified_and_added(process: Process, site: Path) -> None:
    unseen: list[Unseen] = []
    files = tuple(str(site / "vllm/model" / name) for name in ("good.py", "patched.py", "new.py"))
    _, modified = packages.read("/proc", process, (*files, "/elsewhere/x.py", "<string>"), unseen)
    assert modified == [files[1], f"{files[2]} (added)"]
    assert unseen == []
    assert packages.read("/proc", process, files[:1], unseen)[1] == []


def test_editable_installs_are_not_judged(process: Process, site: Path) -> None:
    (site / "vllm-0.32.0+cpu.dist-info/direct_url.json").write_text(
        '{"url": "file:///x", "dir_info": {"editable": true}}'
    )
    unseen: list[Unseen] = []
    assert packages.read("/proc", process, (str(site / "vllm/model/patched.py"),), unseen)[1] is None
    assert [one.reason for one in unseen] == ["unsupported"]


def test_a_file_that_is_none_or_too_large(process: Process, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = site / "vllm/model/patched.py"
    monkeypatch.setattr(packages, "HASH_LIMIT", 10)
    unseen: list[Unseen] = []
    assert packages.read("/proc", process, (str(target),), unseen)[1] is None
    target.unlink()
    os.mkfifo(target)
    assert packages.read("/proc", process, (str(target),), unseen)[1] is None
    assert len(unseen) == 2


def test_this_process_has_its_own_packages() -> None:
    unseen: list[Unseen] = []
    versions, _ = packages.read("/proc", process_of(os.getpid()), (), unseen)
    assert versions is not None
    assert unseen == []
    assert Path(sys.executable).is_absolute()


def test_nothing_found_is_said(tmp_path: Path) -> None:
    unseen: list[Unseen] = []
    nowhere = Process(os.getpid(), 1, 0.0, "S", "", exe="/nonexistent/bin/x", cmdline=())
    assert packages.read(str(tmp_path), nowhere, (), unseen) == (None, None)
    assert [one.reason for one in unseen] == ["failed"]
