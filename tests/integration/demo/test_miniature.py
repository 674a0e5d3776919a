"""The miniature by itself: it gets ready, it really dead-locks, and nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from hangdoc.demo.stage import MINIATURE, READY_LINE, Stage

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def _titles(pid: int) -> dict[str, int]:
    """Title -> PID of all processes below `pid`, as ps shows them."""
    found = {}
    for process in psutil.Process(pid).children(recursive=True):
        title = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        found[title] = process.pid
    return found


def _until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _health(port: int) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.fixture
def hung() -> Iterator[Stage]:
    with Stage(hang=True) as stage:
        stage.wait()
        yield stage


def test_hang_is_a_mutex_that_waits_for_itself(hung: Stage) -> None:
    planted = hung.planted
    titles = _titles(hung.pid)
    assert titles["sglang::scheduler_TP1"] == planted
    assert {"sglang::scheduler_TP0", "sglang::detokenizer"} <= set(titles)
    # futex(2) is what it is blocked in: FUTEX_WAIT_PRIVATE on the value 2, a locked mutex with waiters.
    assert _until(lambda: Path(f"/proc/{planted}/wchan").read_text().startswith("futex"))
    assert not Path(f"/proc/{planted}/environ").read_bytes().strip(b"\0")  # as after setproctitle
    text = hung.log.read_text()
    assert "100% Completed | 7/7" in text
    assert "TP1] Load weight end." not in text
    assert _until(lambda: "TP0] Load weight end." in hung.log.read_text())
    assert READY_LINE not in text
    command = Path(f"/proc/{hung.pid}/cmdline").read_bytes().split(b"\0")
    assert command[1:3] == [b"-m", b"sglang.launch_server"]


def test_good_start_gets_ready_and_answers() -> None:
    with Stage(hang=False) as stage:
        stage.wait()
        assert _health(stage.port) == 200
        members = _titles(stage.pid).values()
        assert stage.planted is None
    assert _until(lambda: not any(_alive(pid) for pid in members))
    assert not stage.folder.exists()


def test_clearing_up_leaves_no_zombie_scheduler() -> None:
    with Stage(hang=True) as stage:
        stage.wait()
        schedulers = [pid for title, pid in _titles(stage.pid).items() if "scheduler" in title]
    assert len(schedulers) == 2
    assert not any(psutil.pid_exists(pid) for pid in schedulers)


def test_everything_ends_with_the_one_who_started_it(tmp_path: Path) -> None:
    """kill -9 of the starter leaves no time to clear up, so the kernel must do it."""
    script = textwrap.dedent("""
        import time
        from hangdoc.demo.stage import Stage
        stage = Stage(hang=True)
        print(stage.pid, stage.folder, flush=True)
        stage.wait()
        print("hung", flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as starter:
        assert starter.stdout
        pid = int(starter.stdout.readline().split()[0])
        assert starter.stdout.readline() == "hung\n"
        members = [pid, *_titles(pid).values()]
        starter.kill()
    assert len(members) >= 4
    assert _until(lambda: not any(_alive(member) for member in members))


def test_its_life_is_bounded(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(MINIATURE), "MINIATURE_SECONDS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(tmp_path), "--port", "1"]
    done = subprocess.run(words, env=environment, capture_output=True, timeout=30, check=False)
    assert done.returncode == -signal.SIGALRM


def test_log_has_the_prefix_of_sglang(hung: Stage) -> None:
    lines = [line for line in hung.log.read_text().splitlines() if line and "Multi-thread" not in line]
    assert all(re.match(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( TP[01])?\] ", line) for line in lines)
