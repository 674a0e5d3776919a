"""`watch PID` against the miniature server: verdicts, events, outlets, and the screen of a real terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest
from running import WATCH, alive, environment, kill, miniature, objects, until, watching

import hangdoc
from hangdoc.demo.stage import Stage, free_port
from hangdoc.shipped import FOLDERS

pytestmark = pytest.mark.slow


def test_a_hang_is_called_soon_and_its_culprit_named(tmp_path: Path) -> None:
    with Stage(hang=True) as stage:
        with watching(str(stage.pid), "--json", "--save", str(tmp_path / "hang.case")) as watch:
            out, err = watch.communicate(timeout=90)
        ended = time.time()
        planted_at = stage._stamp.stat().st_mtime
        said = objects(out)
        assert watch.returncode == 1, err
        assert said[-1]["verdict"] == "hung"
        assert said[-1]["confidence"] == "certain"
        assert {one["pid"] for one in said[-1]["culprits"]} == {stage.planted}
    assert ended - planted_at < 10  # 8 s is the goal on a machine that has nothing else to do
    verdicts = [one["data"]["verdict"] for one in said if one.get("event") == "verdict"]
    assert verdicts[-1] == "hung"
    assert said[0]["event"] == "launch"
    again = subprocess.run(
        [sys.executable, "-m", "hangdoc", "report", str(tmp_path / "hang.case"), "--json"],
        capture_output=True,
        check=False,
    )
    assert objects(again.stdout.decode())[0]["verdict"] == "hung"


def test_a_killed_rank_is_a_crash_with_its_signal() -> None:
    with Stage(hang=True) as stage, watching(str(stage.pid), "--json") as watch:
        rank = until_scheduler(stage.pid, 0)
        assert watch.stdout
        for line in watch.stdout:  # until the watch has seen it
            if objects(line)[0].get("data", {}).get("pid") == rank:
                break
        assert until(lambda: "TP1" in stage.log.read_text())  # its last line is told, too
        os.kill(rank, signal.SIGKILL)
        out, _ = watch.communicate(timeout=60)
    report = objects(out)[-1]
    assert watch.returncode == 5
    assert report["verdict"] == "crashed"
    assert [one["pid"] for one in report["culprits"]] == [rank]
    assert report["culprits"][0]["mechanism"] == "dead"
    assert "SIGKILL" in report["culprits"][0]["detail"]
    first = report["crash"]["ended"][0]
    assert (first["pid"], first["signal"], first["rank"]) == (rank, signal.SIGKILL, "TP0")
    assert any(line["rank"] == "TP1" for line in report["crash"]["last_lines"])


def until_scheduler(root: int, rank: int) -> int:
    """PID of a scheduler, once it is there."""
    found: list[int] = []

    def look() -> bool:
        for one in psutil.Process(root).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if f"scheduler_TP{rank}" in " ".join(one.cmdline()):
                    found.append(one.pid)
        return bool(found)

    assert until(look)
    return found[0]


def test_a_launch_that_starts_again_is_said_and_followed(tmp_path: Path) -> None:
    """A shell that starts its server again is a supervisor: the second launch is a new one."""
    words, env = miniature(tmp_path, free_port())
    twice = f"{words[-1].removesuffix('; true')}; {words[-1]}"
    supervisor = subprocess.Popen(["sh", "-c", twice], env=env, stderr=subprocess.DEVNULL)
    try:
        with watching("--pid", str(supervisor.pid), "--json") as watch:
            assert watch.stdout
            said, killed = [], False
            for line in watch.stdout:
                said += objects(line)
                root = said[-1].get("data", {}).get("root")
                if said[-1].get("event") == "phase" and not killed:
                    killed = True
                    root = next(
                        one["data"]["root"] for one in said if one.get("event") == "launch" and one["data"]["port"]
                    )
                    os.kill(root, signal.SIGKILL)
            watch.wait(60)
        restarts = [one for one in said if one.get("event") == "restart"]
        assert len(restarts) == 1
        assert restarts[0]["data"]["root"] != root
        assert said[-1]["verdict"] == "ready"
    finally:
        kill([one.pid for one in psutil.Process(supervisor.pid).children(recursive=True)])
        supervisor.kill()
        supervisor.wait()


def test_what_is_named_before_it_looks_like_an_engine_is_followed(tmp_path: Path) -> None:
    words, env = miniature(tmp_path, free_port())
    server = words[-1].removesuffix("; true")
    early = subprocess.Popen(["sh", "-c", f"sleep 8; exec {server}"], env=env, stderr=subprocess.DEVNULL)
    try:
        with watching("--pid", str(early.pid), "--json") as watch:
            out, _ = watch.communicate(timeout=90)
        said = objects(out)
        engines = [one["data"]["engine"] for one in said if one.get("event") == "launch"]
        assert engines == ["unknown", "sglang"]
        assert not [one for one in said if one.get("data", {}).get("verdict") in ("suspect", "hung", "crashed")]
        assert said[-1]["verdict"] == "ready"
        assert watch.returncode == 0
    finally:
        early.kill()
        early.wait()


def test_service_manager_metrics_file_and_command_are_told(tmp_path: Path) -> None:
    address, metrics, kept = tmp_path / "notify", tmp_path / "hangdoc.prom", tmp_path / "report.json"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, Stage(hang=False) as stage:
        manager.bind(str(address))
        manager.setblocking(False)
        words = (str(stage.pid), "--json", "--textfile", str(metrics), "--exec", f"sh -c 'cat > {kept}; echo told'")
        with watching(*words, env=environment(NOTIFY_SOCKET=str(address))) as watch:
            out, err = watch.communicate(timeout=90)
        told = []
        with contextlib.suppress(BlockingIOError):
            while True:
                told += manager.recv(4096).decode().splitlines()
    assert watch.returncode == 0, err
    assert "told" in err
    assert told.count("READY=1") == 1
    assert told[-2:] == ["READY=1", "STATUS=ready"]
    assert any(one.startswith("EXTEND_TIMEOUT_USEC=") for one in told)
    text = metrics.read_text()
    assert 'hangdoc_verdict{engine="SGLang",verdict="ready"} 1' in text or 'verdict="ready"} 1' in text
    assert 'phase="ready"' in text
    assert metrics.stat().st_mode & 0o777 == 0o644
    assert sorted(one.name for one in tmp_path.iterdir()) == ["hangdoc.prom", "notify", "report.json"]
    assert objects(kept.read_text())[0] == objects(out)[-1]


def test_on_hang_kill_ends_a_launch_that_is_not_ours() -> None:
    with Stage(hang=True) as stage:
        members = [stage.pid, until_scheduler(stage.pid, 0), until_scheduler(stage.pid, 1)]
        with watching(str(stage.pid), "--json", "--on-hang", "kill") as watch:
            watch.communicate(timeout=90)
        assert watch.returncode == 1
        stage._process.poll()
        assert not any(alive(one) for one in members)


def test_a_watch_whose_own_files_are_removed_still_tells_and_acts(tmp_path: Path) -> None:
    own = tmp_path / "hangdoc"
    shutil.copytree(Path(hangdoc.__file__).parent, own)
    shutil.copytree(FOLDERS["baselines"], own / "baselines" / "shipped", dirs_exist_ok=True)
    with Stage(hang=True) as stage:
        members = [stage.pid, until_scheduler(stage.pid, 0), until_scheduler(stage.pid, 1)]
        with watching(str(stage.pid), "--on-hang", "kill", env=environment(PYTHONPATH=str(tmp_path))) as watch:
            assert watch.stderr is not None
            watch.stderr.readline()
            time.sleep(2)  # two ticks; the server still loads its weights
            own.rename(tmp_path / "gone")
            out, err = watch.communicate(timeout=90)
        assert watch.returncode == 1, err
        assert f"Culprit  scheduler TP1 (PID {stage.planted})" in out
        stage._process.poll()
        assert not any(alive(one) for one in members)


def test_ctrl_c_leaves_the_launch_alone_and_tells_what_is_known() -> None:
    with Stage(hang=False) as stage:
        with watching(str(stage.pid), "--json") as watch:
            assert watch.stdout
            first = watch.stdout.readline()
            watch.send_signal(signal.SIGINT)
            out, _ = watch.communicate(timeout=30)
        assert watch.returncode == 130
        assert objects(first + out)[-1]["schema"] == "hangdoc.report/1"
        assert alive(stage.pid)


def test_time_out_ends_it_with_what_is_known() -> None:
    with Stage(hang=False) as stage:
        began = time.monotonic()
        with watching(str(stage.pid), "--json", "--timeout", "2") as watch:
            out, _ = watch.communicate(timeout=30)
        assert time.monotonic() - began < 10
    assert objects(out)[-1]["schema"] == "hangdoc.report/1"
    assert watch.returncode in (0, 3)


def test_plain_lines_where_there_is_no_terminal() -> None:
    with Stage(hang=False) as stage, watching(str(stage.pid)) as watch:
        out, err = watch.communicate(timeout=90)
    assert out.startswith("READY (certain)")
    assert "\x1b" not in out + err
    assert re.search(r"hangdoc \d\d:\d\d:\d\d  phase weight-load", err)


def test_a_real_terminal_is_drawn_resized_and_left_as_it_was() -> None:
    with Stage(hang=True) as stage:
        pid, terminal = pty.fork()
        if pid == 0:
            own = {name: value for name, value in environment(TERM="xterm-256color").items() if name != "COLUMNS"}
            os.execvpe(WATCH[0], [*WATCH, str(stage.pid)], own)
        try:
            _resize(terminal, 120)
            wide = _read(terminal, lambda seen: b"scheduler TP1" in seen and b"weight-load" in seen)
            _resize(terminal, 60)
            rest = _read(terminal, lambda _: False)
            _, status = os.waitpid(pid, 0)
        finally:
            kill([pid])
            os.close(terminal)
        planted = stage.planted
    assert os.waitstatus_to_exitcode(status) == 1
    assert b"PROGRESSING" in wide or b"UNDECIDED" in wide
    assert b"memory" in wide  # a column that 120 columns have room for
    shown = _plain(rest)
    assert "HUNG" in shown
    assert f"scheduler TP1 (PID {planted})" in shown
    assert rest.rfind(b"\x1b[?25h") > rest.rfind(b"\x1b[?25l")  # the cursor is back
    final = shown[shown.rindex("HUNG (certain)") :]
    assert max(len(line) for line in final.splitlines()) <= 60


def _resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))


def _read(terminal: int, enough: object, seconds: float = 60.0) -> bytes:
    seen, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline and not enough(seen):  # type: ignore[operator]
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            raw = os.read(terminal, 1 << 16)
        except OSError:  # its other end is closed
            break
        if not raw:
            break
        seen += raw
    return seen


def _plain(raw: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.decode("utf-8", "replace")).replace("\r", "")
