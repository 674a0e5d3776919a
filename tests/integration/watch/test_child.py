"""`watch -- COMMAND`: output, signals, exit status, and that nothing of the command hangs on hangdoc."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
from running import WATCH, alive, environment, kill, miniature, objects, until, watching

from hangdoc.demo.stage import free_port

pytestmark = pytest.mark.slow

COUNTS = """
import os, signal, sys, time
def note(number, frame):
    os.write(out, signal.Signals(number).name.encode() + b"\\n")
    global seen
    seen = True
seen, out = False, os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, note)
print("counting", flush=True)
deadline = time.monotonic() + 30
while not seen and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(0.5)
sys.exit(3)
"""


def test_status_is_the_commands_and_output_is_kept_byte_for_byte(tmp_path: Path) -> None:
    said = b"one\r\ntwo \x00\xff\x1b[31m\n" + b"x" * 5000 + b"\nno end"
    script = f"import os, sys; os.write(1, {said[:20]!r}); os.write(2, {said[20:]!r}); sys.exit(7)"
    log = tmp_path / "own.log"
    with watching("--log", str(log), "--", sys.executable, "-c", script) as watch:
        out, err = watch.communicate(timeout=60)
    assert watch.returncode == 7
    assert log.read_bytes() == said
    assert str(log) in err
    assert "\x1b" not in out + err  # what it wrote does not reach our terminal as it is
    assert "no end" in out


def test_a_signal_that_ended_it_is_told_as_a_shell_does(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    with watching("--json", "--log", str(tmp_path / "log"), "--", sys.executable, "-c", script) as watch:
        out, _ = watch.communicate(timeout=60)
    assert watch.returncode == 128 + signal.SIGSEGV
    last = objects(out)[-1]
    assert last["schema"] == "hangdoc.report/1"
    assert last["verdict"] == "crashed"
    assert "SIGSEGV" in last["culprits"][0]["detail"]
    assert last["crash"]["ended"][0]["signal"] == signal.SIGSEGV


@pytest.mark.parametrize(("status", "verdict"), [(0, "undecided"), (3, "crashed")])
def test_the_end_of_what_is_no_server_is_a_crash_only_with_an_error(tmp_path: Path, status: int, verdict: str) -> None:
    command = ("sh", "-c", f"sleep 2; exit {status}")
    with watching("--json", "--log", str(tmp_path / "log"), "--", *command) as watch:
        out, _ = watch.communicate(timeout=60)
    assert watch.returncode == status
    assert objects(out)[-1]["verdict"] == verdict


def test_without_a_name_the_log_is_a_new_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    env = environment(XDG_STATE_HOME=str(tmp_path))
    with watching("--", "echo", "hello", env=env) as watch:
        _, err = watch.communicate(timeout=60)
    (log,) = (tmp_path / "hangdoc").iterdir()
    assert str(log) in err
    assert log.read_text() == "hello\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_fifo_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with watching("--log", str(tmp_path / "fifo"), "--", "true") as watch:
        _, err = watch.communicate(timeout=60)
    assert watch.returncode == 2
    assert "fifo" in err


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with watching("--log", str(tmp_path / "log"), "--", "/nonexistent/vllm") as watch:
        _, err = watch.communicate(timeout=60)
    assert watch.returncode == 2
    assert "/nonexistent/vllm cannot be started" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_sent_on_once(tmp_path: Path, number: signal.Signals) -> None:
    counted, log = tmp_path / "counted", tmp_path / "log"
    words = ("--log", str(log), "--", sys.executable, "-c", COUNTS, str(counted))
    with watching(*words) as watch:
        assert until(lambda: log.exists() and "counting" in log.read_text())
        watch.send_signal(number)
        out, err = watch.communicate(timeout=60)
    assert watch.returncode == 3
    assert f"the command ended after {number.name} was sent on to it" in err
    assert "CRASHED" not in out + err
    assert counted.read_text() == f"{number.name}\n"


LAUNCHES = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
ranks = [subprocess.Popen([sys.executable, "-c", sys.argv[1], name]) for name in sys.argv[2:]]
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_ctrl_c_at_a_terminal_reaches_each_of_its_processes_once(tmp_path: Path) -> None:
    counted, log = [tmp_path / "rank0", tmp_path / "rank1"], tmp_path / "log"
    words = [*WATCH, "--log", str(log), "--", sys.executable, "-c", LAUNCHES, COUNTS, *map(str, counted)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], words, environment(TERM="xterm"))
    try:
        assert until(lambda: log.exists() and log.read_text().count("counting") == 2)
        os.write(terminal, b"\x03")
        _, status = _collect(pid, terminal)
    finally:
        kill([pid])
    assert os.waitstatus_to_exitcode(status) == 3
    assert [one.read_text() for one in counted] == ["SIGINT\n", "SIGINT\n"]


def _collect(pid: int, terminal: int) -> tuple[bytes, int]:
    seen = b""
    while True:
        try:
            raw = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not raw:
            break
        seen += raw
    os.close(terminal)
    return seen, os.waitpid(pid, 0)[1]


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _started(watch: subprocess.Popen[str]) -> list[int]:
    """The shell that was started, and all below it."""
    for one in psutil.Process(watch.pid).children():
        with contextlib.suppress(psutil.Error):  # the agent's own children come and go
            if "launch_server" in " ".join(one.cmdline()):
                return [one.pid, *(child.pid for child in one.children(recursive=True))]
    raise AssertionError("the command is not there")


def test_kill_9_of_hangdoc_leaves_the_server_answering(tmp_path: Path) -> None:
    port = free_port()
    words, env = miniature(tmp_path, port)
    members: list[int] = []
    with watching("--log", str(tmp_path / "log"), "--", *words, env=env) as watch:
        try:
            assert until(lambda: _answers(port), 60)
            members = _started(watch)
            watch.send_signal(signal.SIGKILL)
            watch.wait()
            assert len(members) >= 5
            assert until(lambda: _answers(port), 5)
            assert all(alive(one) for one in members)
        finally:
            kill(members[:1])
    assert until(lambda: not any(alive(one) for one in members))


def test_ready_is_told_and_it_stays_until_the_server_ends(tmp_path: Path) -> None:
    port = free_port()
    words, env = miniature(tmp_path, port)
    with watching("--json", "--log", str(tmp_path / "log"), "--", *words, env=env) as watch:
        assert watch.stdout
        events = []
        for line in watch.stdout:
            events.append(objects(line)[0])
            if events[-1].get("schema"):
                break
        assert events[-1]["verdict"] == "ready"
        assert _answers(port)
        assert watch.poll() is None
        members = _started(watch)
        watch.send_signal(signal.SIGINT)  # as at a terminal: the shell and the server both get it
        out, _ = watch.communicate(timeout=30)
        assert objects(out)[-1]["verdict"] == "ready"
        told = [one["data"] for one in [*events, *objects(out)] if one.get("event") == "child"]
    assert watch.returncode != 0
    assert [one["change"] for one in told] == ["started", "signal", "ended"]
    assert told[1]["signal"] == "SIGINT"
    assert told[2]["status"] == watch.returncode
    assert until(lambda: not any(alive(one) for one in members))
    phases = [one["data"]["phase"] for one in events if one.get("event") == "phase"]
    assert phases[-1] == "ready"
    assert "weight-load" in phases  # over before a look finds it, or not
    assert [one["text"] for one in events if one.get("event") == "line"]


def test_detach_leaves_it(tmp_path: Path) -> None:
    port = free_port()
    words, env = miniature(tmp_path, port)
    members: list[int] = []
    with watching("--detach", "--json", "--log", str(tmp_path / "log"), "--", *words, env=env) as watch:
        try:
            out, _ = watch.communicate(timeout=90)
            said = objects(out)
            members = [one["data"]["pid"] for one in said if one.get("event") == "child"]
            assert watch.returncode == 0
            assert said[-1]["verdict"] == "ready"
            assert _answers(port)
        finally:
            kill(members)
    assert until(lambda: not _answers(port))


def test_on_hang_kill_ends_all_of_it_with_the_status_of_the_verdict(tmp_path: Path) -> None:
    words, env = miniature(tmp_path, free_port(), hang=True)
    with watching("--json", "--on-hang", "kill", "--log", str(tmp_path / "log"), "--", *words, env=env) as watch:
        out, err = watch.communicate(timeout=100)
    said = objects(out)
    members = [one["data"]["pid"] for one in said if one.get("event") in ("member", "child")]
    assert watch.returncode == 1, err
    assert said[-1]["verdict"] == "hung"
    assert said[-1]["culprits"][0]["pid"] == int((tmp_path / "stamp").read_text())
    assert len(set(members)) >= 4
    assert not any(alive(one) for one in members)


def test_on_hang_exit_leaves_it(tmp_path: Path) -> None:
    words, env = miniature(tmp_path, free_port(), hang=True)
    members: list[int] = []
    with watching("--json", "--on-hang", "exit", "--log", str(tmp_path / "log"), "--", *words, env=env) as watch:
        try:
            out, _ = watch.communicate(timeout=100)
            members = [one["data"]["pid"] for one in objects(out) if one.get("event") == "child"]
            assert watch.returncode == 1
            assert all(alive(one) for one in members)
        finally:
            kill(members)
