"""The time left of real files that come in: a download into a hub's cache, and weights that a rank reads from its checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SECONDS, MIB = 60, 60  # a download of a MiB a second
SPEED, WEIGHTS = 16, 640  # weights: MiB a second, MiB

DOWNLOADS = f"""
import os, time
folder = os.environ["HF_HOME"] + "/hub/models--org--m/blobs"
began = time.monotonic()
with open(folder + "/abc.incomplete", "wb") as file:
    for number in range(10 * {MIB}):
        file.write(os.urandom(1 << 20)[: (1 << 20) // 10])
        file.flush()
        time.sleep(max(0.0, began + number / 10 - time.monotonic()))
time.sleep(100)
"""

# The rank says that it loads some seconds after it began, so that whoever watches from the first second sees it.
RANK = f"""
import sys, time
time.sleep(4)
print(time.strftime("[%Y-%m-%d %H:%M:%S] Load weight begin. avail mem=9.0 GB"), flush=True)
began = time.monotonic()
with open(sys.argv[1] + "/model.safetensors", "rb", buffering=0) as file:
    for number in range({WEIGHTS}):
        file.read(1 << 20)
        time.sleep(max(0.0, began + number / {SPEED} - time.monotonic()))
time.sleep(100)
"""
# The same of several files that are mapped, come out of the page cache, and are given back one after another. Only the bar
# tells how far it is, and as tqdm does it ends a line with the next one.
MAPS = f"""
import glob, mmap, sys, time
time.sleep(4)
print(time.strftime("[%Y-%m-%d %H:%M:%S] Load weight begin. avail mem=9.0 GB"), flush=True)
began, files, done, read = time.monotonic(), sorted(glob.glob(sys.argv[1] + "/*.safetensors")), 0, 0
def draw():
    spent = int(time.monotonic() - began)
    share = f"{{100 * done // len(files):3}}% Completed | {{done}}/{{len(files)}}"
    print(f"\\rMulti-thread loading shards: {{share}} [00:{{spent:02}}<00:30,  5.00s/it]", end="", flush=True)
draw()
for name in files:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        for at in range(0, len(pages), 1 << 20):
            pages[at : at + (1 << 20)].count(b"x")
            read += 1
            time.sleep(max(0.0, began + read / {SPEED} - time.monotonic()))
    done += 1
    draw()
time.sleep(100)
"""


def loads(rank: str) -> str:
    """A server whose scheduler runs this program on the checkpoint."""
    return f"""
import os, subprocess, sys
model = sys.argv[sys.argv.index("--model-path") + 1]
words = ["sglang::scheduler", "-c", {rank!r}, model]
subprocess.run(words, executable=sys.executable)
"""


@contextmanager
def launch(folder: Path, server: str, model: str) -> Iterator[int]:
    """A launch whose server is this program, with a hub's cache of its own."""
    package = folder / "lib" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(server)
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", model, "--port", "1"]
    env = {**os.environ, "PYTHONPATH": str(folder / "lib"), "HF_HOME": str(folder / "hf")}
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(words, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        yield child.pid
    finally:
        os.killpg(child.pid, 9)
        child.wait()


def watched(pid: int, seconds: float) -> Any:
    words = [sys.executable, "-m", "hangdoc", "watch", str(pid), "--json", "--timeout", str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 30, check=False)
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
def test_half_way_through_a_download_the_time_left_is_right(tmp_path: Path) -> None:
    top = tmp_path / "hf" / "hub" / "models--org--m"
    for name in ("blobs", "refs", "snapshots/r1"):
        (top / name).mkdir(parents=True)
    (top / "refs" / "main").write_text("r1")
    index = {"metadata": {"total_size": MIB << 20}, "weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (top / "snapshots" / "r1" / "model.safetensors.index.json").write_text(json.dumps(index))
    with launch(tmp_path, DOWNLOADS, "org/m") as pid:
        began = time.monotonic()
        report = watched(pid, SECONDS / 2)
    truly_left = began + SECONDS - time.monotonic()
    (row,) = [one for one in report["progress"] if one["channel"] == "download"]
    assert row["total"] == MIB << 20
    assert row["rate"] == pytest.approx(1 << 20, rel=0.25)
    assert row["eta_s"] == pytest.approx(truly_left, rel=0.25)
    assert row["eta_low_s"] <= row["eta_s"] <= row["eta_high_s"]
    assert report["verdict"] in ("progressing", "slow")
    assert "download" in report["summary"]


@pytest.mark.slow
def test_half_way_through_a_load_the_time_left_is_right_by_the_bytes_that_were_read(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with (model / "model.safetensors").open("wb") as file:
        file.truncate(WEIGHTS << 20)  # no blocks on the disk, but bytes to be read
    with launch(tmp_path, loads(RANK), str(model)) as pid:
        began = time.monotonic()
        report = watched(pid, 4 + WEIGHTS / SPEED / 2)
    truly_left = began + 4 + WEIGHTS / SPEED - time.monotonic()
    (row,) = [one for one in report["progress"] if one["channel"].startswith("weights read of scheduler")]
    assert row["total"] == WEIGHTS << 20
    assert row["rate"] == pytest.approx(SPEED << 20, rel=0.25)
    assert row["eta_s"] == pytest.approx(truly_left, rel=0.25)
    assert report["phase"]["id"] == "weight-load"
    assert report["verdict"] in ("progressing", "slow")


@pytest.mark.slow
def test_half_way_through_a_load_from_the_page_cache_the_time_left_is_right_by_the_bar(tmp_path: Path) -> None:
    model, sizes = tmp_path / "model", (200, 200, 200, 40)  # the last shard of a checkpoint is often much smaller
    model.mkdir()
    for number, size in enumerate(sizes, 1):
        with (model / f"model-{number:05}-of-00004.safetensors").open("wb") as file:
            file.truncate(size << 20)
    seconds = sum(sizes) / SPEED
    with launch(tmp_path, loads(MAPS), str(model)) as pid:
        began = time.monotonic()
        report = watched(pid, 4 + seconds * 0.72)
    truly_left = began + 4 + seconds - time.monotonic()
    (row,) = [one for one in report["progress"] if one["total"] == len(sizes)]
    assert row["done"] == 2
    assert row["eta_s"] == pytest.approx(truly_left, rel=0.25)
    assert report["verdict"] in ("progressing", "slow")
    assert "left" in report["summary"]
