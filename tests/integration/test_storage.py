"""What a launch has on file systems: real folders, downloads, locks of living and dead processes, mounts."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuse import private_mounts, silent_mount
from process_of import WAIT, end, member, until, with_environment

from hangdoc.agent.tick import Ticker
from hangdoc.codec import convert, decode
from hangdoc.model.ask import Ask
from hangdoc.model.plain import to_plain
from hangdoc.model.sample import Sample, Storage, Unseen
from hangdoc.probes import cachewalk, storage
from hangdoc.probes.procfs import Folder
from hangdoc.probes.reading import bounded


def look(pid: int, unseen: list[Unseen] | None = None) -> Storage:
    said: list[Unseen] = [] if unseen is None else unseen
    parts: dict[str, Any] = {}
    for name, value in storage.read("/proc", {pid: with_environment(pid, said)}, said):
        parts[name] = to_plain(value)
    return convert(parts, Storage)


def checkpoint(folder: Path, *, shards: int, there: int, size: int = 1000) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    table = {f"layer.{number}": name for number, name in enumerate(names)}
    index = {"metadata": {"total_size": shards * size}, "weight_map": table}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in names[:there]:
        (folder / name).write_bytes(b"x" * size)
    return folder


def test_a_checkpoint_against_its_index(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "model", shards=4, there=3)
    (model / "pytorch_model.bin").write_bytes(b"not loaded")
    with member("--model-path", str(model), HOME=tmp_path) as pid:
        (found,) = look(pid).checkpoints or ()
    assert (found.name, found.format, found.files, found.bytes) == (str(model), "safetensors", 3, 3000)
    assert (found.expected_files, found.expected_bytes, found.missing) == (4, 4000, 1)
    assert found.missing_names == ("model-00004-of-00004.safetensors",)
    assert found.sizes == ()


def test_sizes_of_weight_files_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "model", shards=3, there=3)
    (model / "model-00002-of-00003.safetensors").write_bytes(b"x" * 7)
    with member("--model-path", str(model), HOME=tmp_path) as pid:
        (found,) = look(pid).checkpoints or ()
    assert found.sizes == (1000, 7, 1000)


def test_a_hub_name_is_the_snapshot_in_the_cache(tmp_path: Path) -> None:
    top = tmp_path / "hf/hub/models--org--name"
    blobs = top / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "aa").write_bytes(b"x" * 700)
    snapshot = checkpoint(top / "snapshots/abc", shards=2, there=0)
    (snapshot / "model-00001-of-00002.safetensors").symlink_to("../../blobs/aa")
    (snapshot / "model-00002-of-00002.safetensors").symlink_to("../../blobs/bb")  # leads nowhere yet
    (top / "refs").mkdir()
    (top / "refs/main").write_text("abc")
    (blobs / "bb.1234.incomplete").write_bytes(b"x" * 300)
    with member("serve", "org/name", HOME=tmp_path, HF_HOME=tmp_path / "hf") as pid:
        found = look(pid)
    (one,) = found.checkpoints or ()
    assert (one.path, one.name, one.bytes, one.missing) == (str(snapshot), "org/name", 700, 1)
    (partial,) = found.partials or ()
    assert (partial.path, partial.bytes, partial.repository) == (str(blobs / "bb.1234.incomplete"), 300, "org/name")
    assert ("model", str(snapshot)) in {(place.role, place.path) for place in found.places or ()}


def test_a_download_grows_and_its_writer_is_named(tmp_path: Path) -> None:
    blobs = tmp_path / "hub/models--o--m/blobs"
    blobs.mkdir(parents=True)
    code = (
        "import sys, time; f = open(sys.argv[2], 'wb', buffering=0); f.write(b'x' * 10);"
        "sys.stdout.write('on'); sys.stdout.flush(); sys.stdin.read(1); f.write(b'x' * 90); time.sleep(100)"
    )
    path = blobs / "cc.incomplete"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", code, "--writes", str(path)],
        env={"HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.read(2) == b"on"
        (before,) = look(child.pid).partials or ()
        assert (before.bytes, before.pids) == (10, (child.pid,))
        child.stdin.write(b"g")
        child.stdin.flush()
        until(lambda: path.stat().st_size == 100)
        (after,) = look(child.pid).partials or ()
        assert after.bytes == 100
        assert after.changed >= before.changed
    finally:
        end(child)


def test_lock_files_tell_who_holds_them(tmp_path: Path) -> None:
    held = tmp_path / ".cache/flashinfer/0.6/90a/tmp/op.lock"
    left = tmp_path / ".cache/torch_extensions/py311/op/lock"
    soft = tmp_path / "hub/.locks/models--o--m/etag.lock"
    for path in (held, left, soft):
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "hub/models--o--m").mkdir()
    os.utime(left, (1_000_000_000, 1_000_000_000))
    gone = subprocess.Popen([sys.executable, "-S", "-c", ""])
    gone.wait()
    soft.write_text(f"{gone.pid}\n{os.uname().nodename}\n")
    code = "import fcntl, sys; f = open(sys.argv[2], 'w'); fcntl.flock(f, fcntl.LOCK_EX); " + WAIT
    with member("--holds", str(held), code=code, HOME=tmp_path, HF_HUB_CACHE=tmp_path / "hub") as pid:
        found = {one.path: one for one in look(pid).lock_files or ()}
    assert (found[str(held)].locked, found[str(held)].holders, found[str(held)].pids) == (True, (pid,), (pid,))
    assert found[str(held)].role == "flashinfer"
    assert (found[str(left)].locked, found[str(left)].size, found[str(left)].changed) == (False, 0, 1_000_000_000)
    assert (found[str(soft)].owner, found[str(soft)].owner_alive) == (gone.pid, False)
    assert found[str(soft)].locked is False


def test_a_lock_of_a_process_that_is_no_member_is_held_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "jit/lock_module_x"
    path.parent.mkdir()
    with path.open("w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        with member(HOME=tmp_path, AITER_JIT_DIR=path.parent) as pid:
            (found,) = [one for one in look(pid).lock_files or () if one.path == str(path)]
    assert (found.locked, found.holders, found.pids) == (True, (os.getpid(),), ())


def test_compiled_files_are_counted_and_walks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "triton"
    for number in range(30):
        (cache / f"k{number}").mkdir(parents=True)
        (cache / f"k{number}" / "kernel.cubin").touch()
    with member(TRITON_CACHE_DIR=cache) as pid:
        place = next(one for one in look(pid).places or () if one.role == "triton")
        assert (place.files, place.cut, place.source) == (30, False, "TRITON_CACHE_DIR")
        assert place.newest is not None
        assert abs(place.newest - time.time()) < 60
        monkeypatch.setattr(cachewalk, "PLACE_ENTRIES", 40)
        place = next(one for one in look(pid).places or () if one.role == "triton")
        assert place.cut
        assert place.files is not None
        assert place.files < 30


def test_weight_files_that_are_read_tell_how_far(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "m", shards=1, there=1, size=5000)
    shard = next(model.glob("*.safetensors"))
    code = "import sys; f = open(sys.argv[2], 'rb', buffering=0); f.read(1234); " + WAIT
    with member("--file", str(shard), code=code, HOME=tmp_path) as pid:
        (found,) = look(pid).weights or ()
    assert (found.pid, found.path, found.position, found.size) == (pid, str(shard), 1234, 5000)


def test_a_descriptor_that_is_closed_meanwhile_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Folder.numbers
    monkeypatch.setattr(Folder, "numbers", lambda folder, name: [1 << 20, *numbers(folder, name)])
    with (tmp_path / "model.safetensors").open("wb") as shard:
        opened = storage.open_files("/proc", [os.getpid()])
        assert [(pid, one.fd) for pid, one in opened[shard.name]] == [(os.getpid(), shard.fileno())]


@pytest.mark.root
def test_the_file_system_of_a_place_is_told(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with private_mounts(libc):
        if libc.mount(b"small", bytes(tmp_path), b"tmpfs", 0, b"size=1m,nr_inodes=100") != 0:
            pytest.skip("no tmpfs can be mounted here")
        try:
            (tmp_path / "big").write_bytes(b"x" * (1 << 19))
            (tmp_path / "link").symlink_to(tmp_path / "cache")
            with member(HOME="/nonexistent", VLLM_CACHE_ROOT=tmp_path / "link") as pid:
                place = next(one for one in look(pid).places or () if one.role == "vllm-cache")
        finally:
            libc.umount2(bytes(tmp_path), 2)
    assert (place.mount, place.kind, place.device, place.remote) == (str(tmp_path), "tmpfs", "small", False)
    assert (place.exists, place.answers, place.total, place.inodes) == (False, True, 1 << 20, 100)
    assert place.free == 1 << 19
    assert place.inodes_free is not None
    assert place.inodes_free < 100


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="changes the root folder of a child")
def test_links_are_followed_as_the_member_sees_them(tmp_path: Path) -> None:
    """In a root of its own `/models` leads to a folder that has another meaning outside."""
    (tmp_path / "real").mkdir()
    (tmp_path / "models").symlink_to("/real")
    checkpoint(tmp_path / "real", shards=1, there=1)
    code = "import os, sys, time; os.chroot(sys.argv[1]); os.chdir('/'); " + WAIT
    with member(str(tmp_path), "--model", "/models", code=code, HOME="/") as pid:
        (found,) = look(pid).checkpoints or ()
    assert (found.path, found.files) == ("/real", 1)


def test_a_silent_file_system_is_not_touched(tmp_path: Path) -> None:
    with silent_mount(tmp_path) as point:
        with member("--model-path", str(point / "m"), HOME=point, TMPDIR="/") as pid:
            unseen: list[Unseen] = []
            began = time.monotonic()
            found = look(pid, unseen)
            assert time.monotonic() - began < 3.0
        model = next(one for one in found.places or () if one.role == "model")
        assert (model.answers, model.kind, model.mount, model.total) == (False, "fuse", str(point), None)
        assert "timed-out" in {one.reason for one in unseen}
    until(_reaped)


def _reaped() -> bool:
    """The prober that got stuck ends with the mount."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def test_names_that_are_no_text_and_sizes_beyond_all_numbers(tmp_path: Path) -> None:
    """What a sample holds must be readable whatever the names and sizes are."""
    cache = tmp_path / "triton"
    cache.mkdir()
    (cache / os.fsdecode(b"\xff\xfe.lock")).touch()
    blobs = tmp_path / "hub/models--o--m/blobs"
    blobs.mkdir(parents=True)
    (blobs / os.fsdecode(b"\xff.incomplete")).touch()
    model = tmp_path / os.fsdecode(b"m\xff")
    checkpoint(model, shards=2, there=1)
    index = json.loads((model / "model.safetensors.index.json").read_text())
    index["weight_map"]["x"] = "\ud800"
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    with member(
        "--model", str(model), HOME=tmp_path, TRITON_CACHE_DIR=cache, HF_HUB_CACHE=tmp_path / "hub", TMPDIR=tmp_path
    ) as pid:
        sample = decode(json.dumps(Ticker().answer(Ask(1, ("storage",), pids=(pid,)))), Sample)
    assert sample.storage is not None
    assert [one.path for one in sample.storage.lock_files or ()] == [f"{cache}/\\udcff\\udcfe.lock"]
    assert [one.path for one in sample.storage.partials or ()] == [f"{blobs}/\\udcff.incomplete"]
    assert bounded(1 << 64) == (1 << 63) - 1


def test_mapped_weights_and_preloaded_libraries_are_named(tmp_path: Path) -> None:
    shard = tmp_path / "model-00001-of-00002.safetensors"
    shard.write_bytes(b"x" * 8192)
    original = next((path for path in Path("/lib").glob("*-linux-gnu*/libm.so.6")), None)
    if original is None:
        pytest.skip("no libm.so.6 here to copy")
    library = tmp_path / "mine.so"
    library.write_bytes(original.read_bytes())
    code = "import mmap, sys; f = open(sys.argv[2], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); " + WAIT
    with member("--file", str(shard), code=code, HOME=tmp_path, LD_PRELOAD=library) as pid:
        found = convert(Ticker().answer(Ask(1, ("storage",), pids=(pid,))), Sample).processes[pid]
    assert found.weights == (str(shard),)
    assert str(library) in (found.libraries or ())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="looks as another user at a process of root")
def test_without_the_right_nothing_is_taken_for_empty(tmp_path: Path) -> None:
    with member("--model", str(checkpoint(tmp_path / "m", shards=1, there=1)), HOME=tmp_path) as pid:
        sample = decode(as_nobody(lambda: Ticker().answer(Ask(1, ("storage", "network"), pids=(pid,)))), Sample)
    assert sample.storage is not None
    assert not sample.storage.places
    assert {("storage", "denied"), ("network", "denied")} <= {(one.probe, one.reason) for one in sample.unseen}
    assert sample.networks is not None
    (found,) = sample.networks
    assert (found.nameservers, found.preload) == (None, None)


def as_nobody(do: Callable[[], Any]) -> str:
    """What `do` gives in a forked child of another user, as JSON."""
    import resource  # noqa: F401 - os.wait4 imports it; another user may not reach the folder of this interpreter

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with os.fdopen(writing, "w") as out:
                out.write(json.dumps(do()))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said


def test_of_what_lies_in_a_common_temporary_folder_only_engines_locks_are_told(tmp_path: Path) -> None:
    lock = tmp_path / ("0123456789abcdef" * 4 + "org-name.lock")
    for path in (lock, tmp_path / "mine.lock", tmp_path / "mine.incomplete"):
        path.touch()
    with member(HOME="/nonexistent", TMPDIR=tmp_path) as pid:
        found = look(pid)
    assert [one.path for one in found.lock_files or ()] == [str(lock)]
    assert found.partials == ()


def test_locks_of_other_models_in_a_hub_are_left_out(tmp_path: Path) -> None:
    for name in ("models--o--mine", "models--o--other"):
        (tmp_path / "hub" / name).mkdir(parents=True)
        lock = tmp_path / "hub/.locks" / name / "etag.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
    with member("serve", "o/mine", HOME="/nonexistent", HF_HUB_CACHE=tmp_path / "hub", TMPDIR=tmp_path) as pid:
        assert [one.path for one in look(pid).lock_files or ()] == [f"{tmp_path}/hub/.locks/models--o--mine/etag.lock"]
    with member(HOME="/nonexistent", HF_HUB_CACHE=tmp_path / "hub", TMPDIR=tmp_path) as pid:
        assert len(look(pid).lock_files or ()) == 2


def test_a_lock_that_a_member_has_open_is_told_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "anywhere/build.lock"
    path.parent.mkdir()
    code = "import fcntl, sys; f = open(sys.argv[2], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); " + WAIT
    with member("--holds", str(path), code=code, HOME="/nonexistent", TMPDIR=tmp_path / "none") as pid:
        (found,) = look(pid).lock_files or ()
    assert (found.path, found.role, found.locked, found.holders) == (str(path), "", True, (pid,))


def test_a_cache_whose_turn_did_not_come_is_not_counted_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("triton", "deep"):
        (tmp_path / name).mkdir()
        for number in range(10):
            (tmp_path / name / str(number)).touch()
    budget = cachewalk.Budget
    monkeypatch.setattr(cachewalk, "Budget", lambda *given: budget(*(given or (5,))))
    with member(
        HOME="/nonexistent",
        TMPDIR=tmp_path / "none",
        TRITON_CACHE_DIR=tmp_path / "triton",
        DG_JIT_CACHE_DIR=tmp_path / "deep",
    ) as pid:
        found = {one.role: one for one in look(pid).places or ()}
    assert found["triton"].cut
    assert found["deep-gemm"].files is None
