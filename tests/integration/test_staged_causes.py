"""What the known causes say of whole starts: nothing of a good one and of a slow one, the right one of a rank that writes.

The miniature server is copied, and what processes its weights is replaced by a play that rank 1 acts.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from causing import free_port
from targets import eventually

from hangdoc.demo.stage import MINIATURE, Stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PROCESSING = """
import os
import play

class UnquantizedLinearMethod:
    def __init__(self, rank):
        self.rank = rank

    def process_weights_after_loading(self, weight):
        if self.rank == 1:
            with open(os.environ["PLAY"], "w") as stamp:
                stamp.write(str(os.getpid()))
            play.act()
"""


class Launch:
    """A miniature whose rank 1 acts a play."""

    def __init__(self, folder: Path, plays: Mapping[str, str]) -> None:
        shutil.copytree(MINIATURE, folder / "site")
        (folder / "home" / ".cache").mkdir(parents=True)
        (folder / "model").mkdir()
        (folder / "model" / "model-00001-of-00001.safetensors").write_bytes(bytes(1 << 16))
        plays = {"sglang/srt/layers/quantization/unquant.py": PROCESSING, **plays}
        for name, text in plays.items():
            path = folder / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent != folder / "site":
                _packages(path.parent, folder / "site")
            path.write_text(text)
        self.folder, self.stamp = folder, folder / "stamp"
        words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(folder / "model"), "--tp", "2"]
        with (folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "--port", str(free_port())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=self._environment(),
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder / "site"),
            "HOME": str(self.folder / "home"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "MINIATURE_PARENT": str(os.getpid()),
            "MINIATURE_SECONDS": "170",
            "PLAY": str(self.stamp),
        }

    def acting(self) -> int:
        """Pid of rank 1, once it acts."""
        return int(eventually(lambda: self.stamp.read_text() if self.stamp.exists() else "", 40))

    def causes(self) -> dict[str, dict[str, Any]]:
        """Known causes that a look finds, by id. A host short of memory pages the launch in again: that is movement."""
        words = [sys.executable, "-m", "hangdoc", "diagnose", str(self.process.pid), "--json"]
        for _ in range(3):
            done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
            report = json.loads(done.stdout)
            if report["verdict"] not in ("progressing", "undecided"):
                break
        return {one["id"]: one for one in report["causes"]}


def _packages(folder: Path, site: Path) -> None:
    """Mark folders as packages: py-spy shortens names of files up to the outermost of them."""
    while folder != site:
        (folder / "__init__.py").touch()
        folder = folder.parent


@contextlib.contextmanager
def launch(folder: Path, plays: Mapping[str, str]) -> Iterator[Launch]:
    """Starts one and ends all of it."""
    one = Launch(folder, plays)
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


def test_output_into_a_terminal_that_is_stopped(tmp_path: Path) -> None:
    terminal, end = pty.openpty()  # nobody reads at the other end, as with a scrolled-back screen
    name = os.ttyname(end)
    play = f"import os\n\ndef act():\n    out = os.open({name!r}, os.O_WRONLY | os.O_NOCTTY)\n    os.dup2(out, 2)\n"
    play += "    while True:\n        os.write(2, b'INFO still here' + bytes([10]))\n"
    try:
        with launch(tmp_path, {"play.py": play}) as one:
            one.acting()
            found = one.causes()
    finally:
        os.close(terminal)
        os.close(end)
    assert found["output-terminal-stopped"]["confidence"] == "likely"
    assert "code-outside-of-the-engine" not in found


def test_a_good_start_has_no_known_cause_at_any_look() -> None:
    seen = []
    with Stage(hang=False) as stage:
        for _ in range(4):
            words = [sys.executable, "-m", "hangdoc", "diagnose", str(stage.pid), "--json"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
            seen.append(json.loads(done.stdout))
    assert [(one["verdict"], one["causes"]) for one in seen if one["causes"]] == []
    assert seen[-1]["verdict"] == "ready"


def test_a_rank_that_is_slow_but_moves_is_told_no_reason_to_hang(tmp_path: Path) -> None:
    # Six quiet seconds between the steps, as a layer may take
    play = "import time\nfrom sglang.srt.process import say\n\ndef act():\n    for number in range(20):\n"
    play += "        say(f'Layer {number} of {chr(97 + number)} is made', 1)\n        time.sleep(6)\n"
    with launch(tmp_path, {"play.py": play}) as one:
        one.acting()
        found = {name for _ in range(3) for name in one.causes()}
    assert found <= {"weights-are-repacked"}  # which says that it is slow and no hang
