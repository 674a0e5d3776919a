"""When nothing is attached, what ends a tool, and that nobody is left otherwise than he was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attaching import ask, child, needs_compiler, needs_pyspy, needs_strace, script
from process_of import end, process_of, state, until
from targets import compiled, running

from hangdoc.agent import guardian
from hangdoc.model.sample import Process

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("probe", ["native", "strace"])
def test_what_was_stopped_is_left_alone_and_stays_stopped(probe: str) -> None:
    with child("import time; time.sleep(100)") as process:
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: state(process.pid) == "T")
        fields, unseen = ask(process, probe)
        assert state(process.pid) == "T"
    assert "deep" not in fields or fields["deep"] == []
    if shutil.which("strace") or probe == "native":
        assert [(one["probe"], one["reason"]) for one in unseen] == [(probe, "skipped")]
        assert "is stopped" in unseen[0]["detail"]


@needs_compiler
@pytest.mark.parametrize("probe", ["native", "strace"])
def test_a_thread_in_state_d_is_refused(probe: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with running([compiled(tmp_path), "vfork", tmp_path / "fifo"]) as (pid, _):
        until(lambda: state(pid) == "D")
        _, unseen = ask(process_of(pid), probe)
        assert state(pid) == "D"
    assert [one["reason"] for one in unseen] == [
        "skipped" if probe == "native" or shutil.which("strace") else "tool-missing"
    ]


@needs_strace
def test_a_process_that_is_traced_already_is_refused() -> None:
    with child("import time; time.sleep(100)") as process:
        other = subprocess.Popen(["strace", "-q", "-p", str(process.pid)], stderr=subprocess.DEVNULL)
        try:
            until(lambda: guardian.standing("/proc", process)[process.pid].tracer)
            _, unseen = ask(process, "strace")
        finally:
            end(other)
    assert f"process {other.pid} traces thread" in unseen[0]["detail"]


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.mark.skipif(not os.access(FREEZER, os.W_OK), reason="no freezer to write to")
def test_a_frozen_cgroup_is_refused() -> None:
    group = FREEZER / f"hangdoc-test-{os.getpid()}"
    group.mkdir()
    try:
        with child("import time; time.sleep(100)") as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            (group / "freezer.state").write_text("FROZEN")
            try:
                until(lambda: (group / "freezer.state").read_text().strip() == "FROZEN")
                why = guardian.refusal("/proc", process, {process.pid: guardian.Standing("S")})
                _, unseen = ask(process, "native")
            finally:
                (group / "freezer.state").write_text("THAWED")
        assert why is not None
        assert "frozen" in why
        assert [one["reason"] for one in unseen] == ["skipped"]
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_without_strace_it_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with child("import time; time.sleep(100)") as process:
        fields, unseen = ask(process, "strace")
    assert fields["deep"] == []
    assert [(one["probe"], one["reason"]) for one in unseen] == [("strace", "tool-missing")]


def test_an_old_pyspy_is_not_attached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before 0.4.0 it attached with PTRACE_ATTACH, which can leave a stop signal behind."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    ran = tmp_path / "ran"
    old = script(tmp_path, "py-spy", f'[ "$1" = --version ] && echo "py-spy 0.3.14" && exit 0\ntouch {ran}')
    process = process_of(os.getpid())  # its own py-spy is not looked for: it stands for a process without one
    process = Process(process.pid, process.ppid, process.start, "S", "", exe="/nowhere/python")
    fields, unseen = ask(process, "native", pyspy=old)
    assert fields["deep"] == []
    assert [(one["probe"], one["reason"]) for one in unseen] == [("native", "tool-missing")]
    assert "0.4.0" in unseen[0]["detail"]
    assert not ran.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file rights of its own")
def test_a_tool_with_rights_of_its_own_is_refused(tmp_path: Path) -> None:
    """The kernel drops the parent-death signal when such a program starts."""
    tool = script(tmp_path, "tool", "exit 0")
    assert guardian.own_rights(str(tool)) is None
    tool.chmod(0o4755)
    assert "set-user-ID" in str(guardian.own_rights(str(tool)))


def test_a_tool_that_does_not_end_is_killed_at_the_deadline(tmp_path: Path) -> None:
    tool = script(tmp_path, "tool", "trap '' TERM ALRM\nwhile :; do sleep 0.1; done")
    with child("import time; time.sleep(100)") as process:
        began = time.monotonic()
        found = guardian.attach("/proc", process, "native", [str(tool)], 0.4, guardian.standing("/proc", process))
    assert time.monotonic() - began < 2
    assert found.told[0] is None
    assert not found.step.measured
    assert found.step.paused_ms >= 400


def test_what_is_not_as_it_was_is_named() -> None:
    same = {1: guardian.Standing("S"), 2: guardian.Standing("T")}
    assert guardian.differences(same, same) == set()
    assert guardian.differences(same, {1: guardian.Standing("R"), 2: guardian.Standing("T")}) == set()
    after = {1: guardian.Standing("T", 9, stopping=True), 2: guardian.Standing("S"), 3: guardian.Standing("t", 9)}
    assert guardian.differences(same, after) == {
        "thread 1 is stopped (state T)", "thread 1 is traced by process 9", "a stop signal is pending on thread 1",
        "thread 2 is no longer stopped", "thread 3 is stopped (state t)", "thread 3 is traced by process 9",
    }  # fmt: skip


def test_a_number_that_another_process_has_now_is_gone() -> None:
    with child("import time; time.sleep(100)") as process, pytest.raises(OSError, match="another process"):
        guardian.standing("/proc", Process(process.pid, 1, process.start - 5, "S", ""))


@needs_pyspy
@needs_strace
@needs_compiler
@pytest.mark.slow
def test_killed_at_any_moment_it_leaves_every_thread_as_it_was() -> None:
    """A few rounds of the script that does hundreds."""
    command = [sys.executable, str(ROOT / "tools" / "kill_rounds.py"), "--rounds", "12", "--tool-rounds", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "late-d" in done.stdout
