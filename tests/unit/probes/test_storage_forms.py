"""Which folders a launch names, what an index says, which mapped files count. Pure."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.probes import cachewalk, checkpoints, inside, mapped, mounts, whereabouts


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("vllm serve org/name --port 1", [("model", "org/name", "serve")]),
        ("python -m sglang.launch_server --model-path /m", [("model", "/m", "--model-path")]),
        ("x --model=/m --download-dir /d", [("model", "/m", "--model"), ("download-dir", "/d", "--download-dir")]),
        ("x --model_path=/m", [("model", "/m", "--model-path")]),
        ("x --model --port 1", []),
        ("x --model", []),
        ("serve /m", []),  # a program of that name
    ],
)
def test_arguments(words: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.role, one.path, one.source) for one in whereabouts.arguments(words.split())] == expected


def paths(**env: str) -> dict[str, tuple[str, str]]:
    return {one.role: (one.path, one.source) for one in whereabouts.caches(env, "ann")}


def test_the_first_variable_that_is_set_names_a_cache() -> None:
    assert paths(HOME="/h")["hub"] == ("/h/.cache/huggingface/hub", "default")
    assert paths(HOME="/h", XDG_CACHE_HOME="/x")["hub"] == ("/x/huggingface/hub", "default")
    assert paths(HOME="/h", HF_HOME="/hf")["hub"] == ("/hf/hub", "HF_HOME")
    assert paths(HOME="/h", HF_HOME="~/hf")["hub"] == ("/h/hf/hub", "HF_HOME")
    assert paths(HOME="/h", HF_HOME="/hf", HF_HUB_CACHE="/c")["hub"] == ("/c", "HF_HUB_CACHE")
    assert paths(HOME="/h", TMPDIR="/t")["inductor"] == ("/t/torchinductor_ann", "default")
    assert "triton" not in paths(TMPDIR="/t")
    assert paths(TRITON_CACHE_DIR="relative").get("triton") is None


def test_variables_of_a_process_with_a_title_are_those_of_its_nearest_ancestor() -> None:
    known = {1: {"A": "1"}, 3: {"A": "3"}}
    assert whereabouts.environment(4, {4: 2, 2: 1}, known) == {"A": "1"}
    assert whereabouts.environment(5, {5: 3, 3: 1}, known) == {"A": "3"}
    assert whereabouts.environment(6, {6: 7, 7: 6}, known) == {}


@pytest.mark.parametrize("name", ["", "a/b/c", "../x", "a/..", "~/m", "./m"])
def test_what_is_no_hub_name(name: str) -> None:
    assert whereabouts.hub_folder(name) is None


@given(st.text(), st.text())
def test_a_hub_folder_never_climbs(one: str, other: str) -> None:
    folder = whereabouts.hub_folder(f"{one}/{other}")
    assert folder is None or ("/" not in folder and folder.startswith("models--"))


def test_an_index() -> None:
    raw = json.dumps({"metadata": {"total_size": 7.0}, "weight_map": {"a": "1.s", "b": "2.s", "c": "1.s"}}).encode()
    assert checkpoints.parse_index(raw) == (["1.s", "2.s"], 7)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"{", b'{"weight_map": 3, "metadata": []}', b'{"metadata": {"total_size": true}}',
        b'{"metadata": {"total_size": -1}}', b'{"metadata": {"total_size": NaN}}', b"[" * 100_000, b"\xff",
    ],
)  # fmt: skip
def test_what_is_no_index(raw: bytes) -> None:
    assert checkpoints.parse_index(raw) == (None, None)


def test_an_index_cannot_name_files_elsewhere() -> None:
    assert checkpoints.parse_index(b'{"weight_map": {"a": "../../etc/passwd"}}') == ([], None)


MAPS = """\
7f0000000000-7f0000001000 r--p 00000000 fe:00 11                         /m/model-00001-of-00002.safetensors
7f0000001000-7f0000002000 r--p 00001000 fe:00 11                         /m/model-00001-of-00002.safetensors
7f0000002000-7f0000003000 r-xp 00000000 fe:00 12                         /usr/lib/libvgpu.so
7f0000003000-7f0000004000 r-xp 00000000 fe:00 13                         /usr/lib/libc.so.6
7f0000004000-7f0000005000 r-xp 00000000 fe:00 14                         /x/libnccl.so.2
7f0000005000-7f0000006000 r-xp 00000000 fe:00 15                         /opt/mine.so
7f0000006000-7f0000007000 rw-p 00000000 00:00 0                          [heap]
7f0000007000-7f0000008000 r-xp 00000000 fe:00 16                         /usr/lib/libcuda.so.550.54.15
"""


def test_mapped_files_that_matter() -> None:
    weights, libraries = mapped.sort(MAPS, "/elsewhere/mine.so libother.so")
    assert weights == ("/m/model-00001-of-00002.safetensors",)
    assert libraries == (
        "/usr/lib/libvgpu.so",
        "/x/libnccl.so.2",
        "/opt/mine.so",
        "/usr/lib/libcuda.so.550.54.15",
    )
    assert "/opt/mine.so" not in mapped.sort(MAPS, "")[1]


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("4711\nbox-1\n", ("4711", "box-1")),
        ("4711", ("4711", None)),
        ("pid: 4711", ("4711", None)),
        ("hello", None),
        ("", None),
    ],
)
def test_what_a_soft_lock_tells(text: str, owner: tuple[str, str | None] | None) -> None:
    found = cachewalk._OWNER.match(text)
    assert (found and found.groups()) == owner


def test_what_would_be_mounted_by_looking_is_not_touched() -> None:
    view = inside.Inside("/proc", os.getpid())
    view.mounts = [*view.mounts, mounts.Mount("/proc/self", "autofs", "0:99", "/", "rw")]
    with pytest.raises(inside.Untouched) as raised:
        view.real("/proc/self/net")
    assert raised.value.errno == errno.EOPNOTSUPP
    assert view.real("/proc/sys/kernel") == "/proc/sys/kernel"


def test_links_without_end_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to("a")
    view = inside.Inside("/proc", os.getpid())
    with pytest.raises(OSError, match="symbolic") as raised:
        view.real(str(tmp_path / "a/x"))
    assert raised.value.errno == errno.ELOOP
    (tmp_path / "c").symlink_to("../" * 30 + "etc/../tmp")
    assert view.real(str(tmp_path / "c")) == os.path.realpath("/tmp")
