"""The time left of a real download: a file that grows in a hub's cache, against an index that says how much there will be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS, MIB = 60, 60  # a MiB a second

SERVER = f"""
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


@pytest.fixture
def downloading(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A launch that does nothing but download, from its first second on."""
    package = tmp_path / "lib" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(SERVER)
    top = tmp_path / "hf" / "hub" / "models--org--m"
    for name in ("blobs", "refs", "snapshots/r1"):
        (top / name).mkdir(parents=True)
    (top / "refs" / "main").write_text("r1")
    index = {"metadata": {"total_size": MIB << 20}, "weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (top / "snapshots" / "r1" / "model.safetensors.index.json").write_text(json.dumps(index))
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", "org/m", "--port", "1"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "lib"), "HF_HOME": str(tmp_path / "hf")}
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(words, env=env, cwd=tmp_path, stdout=log, stderr=log)
    yield child
    child.kill()
    child.wait()


@pytest.mark.slow
def test_half_way_through_a_download_the_time_left_is_right(downloading: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    words = [sys.executable, "-m", "hangdoc", "watch", str(downloading.pid), "--json", "--timeout", str(SECONDS / 2)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    report = json.loads(done.stdout.strip().splitlines()[-1])
    truly_left = began + SECONDS - time.monotonic()
    (row,) = [one for one in report["progress"] if one["channel"] == "download"]
    assert row["total"] == MIB << 20
    assert row["rate"] == pytest.approx(1 << 20, rel=0.25)
    assert row["eta_s"] == pytest.approx(truly_left, rel=0.25)
    assert row["eta_low_s"] <= row["eta_s"] <= row["eta_high_s"]
    assert report["verdict"] in ("progressing", "slow")
    assert "download" in report["summary"]
