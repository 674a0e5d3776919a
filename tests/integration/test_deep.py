"""--deep and quick looks on real processes: what they see, when they are refused, and that their targets are as before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from process_of import end, process_of, python, state, until
from targets import compiled, running

from hangdoc.agent import deep, guardian, wire
from hangdoc.agent.isolate import Nursery
from hangdoc.analysis import closer
from hangdoc.demo.stage import Stage
from hangdoc.model.ask import Ask
from hangdoc.model.plain import to_plain
from hangdoc.model.sample import Process, Stack, Unseen
from hangdoc.probes import glance, strace

ROOT = Path(__file__).parents[2]
PYSPY = Path(sys.executable).with_name("py-spy")
needs_pyspy = pytest.mark.skipif(not PYSPY.exists(), reason="no py-spy beside this Python")
needs_strace = pytest.mark.skipif(strace.find()[0] is None, reason="no strace here")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
ARCH = os.uname().machine
# libc's own, so that it runs on every Python
EVENTFD = "import ctypes, os, threading, time\nfd = ctypes.CDLL(None).eventfd(0, 0o4000 * {})\n"
LOOP = EVENTFD.format(1) + "while True:\n    os.write(fd, (1).to_bytes(8, 'little'))\n    time.sleep(0.001)"
FAILS = (
    EVENTFD.format(1) + "while True:\n    try: os.write(fd, b'four')\n    except OSError: pass\n    time.sleep(0.001)"
)
FULL = (
    EVENTFD.format(0)
    + "def drain():\n    while True:\n        time.sleep(0.005)\n        os.read(fd, 8)\n"
    + "threading.Thread(target=drain, daemon=True).start()\n"
    + "while True: os.write(fd, (2**64 - 2).to_bytes(8, 'little'))"
)


@contextmanager
def child(code: str, **options: Any) -> Iterator[Process]:
    """A Python child that runs `code`, once it is in it."""
    one = python("print('in', flush=True)\n" + code, stdout=subprocess.PIPE, **options)
    try:
        assert one.stdout
        one.stdout.readline()
        time.sleep(0.1)
        yield process_of(one.pid)
    finally:
        end(one)


def ask(process: Process, probe: str, seconds: float = 5.0, pyspy: Path = PYSPY) -> tuple[dict[str, Any], list[Any]]:
    """(fields of the process and of the sample, what was not seen) of one question to the agent's part."""
    plain = {process.pid: to_plain(process)}
    question = Ask(1, (probe,), pids=(process.pid,), deep_pids=(process.pid,), pyspy=str(pyspy))
    unseen: list[Any] = []
    nursery = Nursery()
    fields = deep.look(nursery, "/proc", question, plain, time.monotonic() + seconds, unseen)
    assert nursery.abandoned == 0
    return {**plain[process.pid], **fields}, unseen


def said(process: Process) -> str:
    unseen: list[Unseen] = []
    found = glance.read("/proc", process, unseen)
    assert found is not None
    assert unseen == []
    return closer.glance_words(found, process.pid, ARCH)


def test_quick_looks_see_writes_to_an_eventfd() -> None:
    with child(LOOP) as process:
        words = said(process)
    assert "blocked in clock_nanosleep" in words or "blocked in pselect6" in words
    assert "writes a second of 8 bytes each" in words
    assert "the counter of eventfd" in words


def test_quick_looks_tell_failing_writes_from_others() -> None:
    with child(FAILS) as process:
        words = said(process)
    assert "writes a second that move nothing or fail" in words
    assert "the counter of eventfd" not in words


def test_quick_looks_name_the_descriptor_of_a_call_that_blocks() -> None:
    with child(FULL) as process:
        assert "blocked in write on an eventfd" in said(process)


def test_quick_looks_at_a_sleeper_see_nothing_move() -> None:
    with child("import time; time.sleep(100)") as process:
        words = said(process)
    assert words.startswith("100% blocked in")
    assert "a second" not in words


def test_quick_looks_at_a_process_that_ended_say_so() -> None:
    with child("import time; time.sleep(100)") as process:
        pass
    unseen: list[Unseen] = []
    assert glance.read("/proc", process, unseen) is None
    assert [one.reason for one in unseen] == ["gone"]


def test_quick_looks_pause_nothing() -> None:
    with child(LOOP) as process:
        states: set[str] = set()
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                states.add(state(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        fields, unseen = ask(process, "glance")
        done.set()
        watcher.join()
    assert unseen == []
    assert fields["glance"]["looks"] == glance.LOOKS
    assert "deep" not in fields
    assert states <= set("RSD")


@needs_strace
def test_strace_says_what_a_loop_does_and_what_it_cost() -> None:
    with child(LOOP) as process:
        before = guardian.standing("/proc", process)
        fields, unseen = ask(process, "strace")
        assert guardian.differences(before, guardian.standing("/proc", process)) == set()
        assert state(process.pid) in "RS"
    assert unseen == []
    (step,) = fields["deep"]
    assert 1.5 < step["wall_s"] < 3.5
    assert 0 < step["paused_ms"] <= 1000 * step["wall_s"]
    assert deep.paused_ms(fields) == {str(process.pid): step["paused_ms"]}
    calls = fields["trace"]["calls"]
    assert any(one["name"] == "write" and one["size"] == 8 and "eventfd" in one["target"] for one in calls)


@needs_strace
def test_strace_says_why_a_loop_fails() -> None:
    with child(FAILS) as process:
        fields, _ = ask(process, "strace")
    written = [one for one in fields["trace"]["calls"] if one["name"] == "write"]
    assert [(one["size"], one["error"]) for one in written] == [(4, "EINVAL")]


@needs_strace
def test_calls_that_an_attach_may_end_are_named() -> None:
    code = "import select; poller = select.epoll(); poller.poll(100)"
    with child(code) as process:
        fields, _ = ask(process, "strace", seconds=1.6)
    assert fields["deep"][0]["interrupted"][0].startswith(f"thread {process.pid}: epoll_")


@needs_pyspy
@needs_compiler
def test_native_stacks_name_the_function_that_holds_a_thread(tmp_path: Path) -> None:
    source = tmp_path / "k.c"
    source.write_text(
        "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n"
        "void repack(void) { pthread_mutex_lock(&m); pthread_mutex_lock(&m); }\n"
    )
    library = tmp_path / "libk.so"
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", library, source], check=True)
    with child(f"import ctypes\ndef hook(): ctypes.CDLL({str(library)!r}).repack()\nhook()") as process:
        fields, unseen = ask(process, "native")
        until(lambda: state(process.pid) == "S")
    assert unseen == []
    names = [frame["function"] for one in fields["native"] for frame in one["frames"]]
    assert any("mutex_lock" in name for name in names[:2])
    assert names.index("repack") < names.index("hook")
    assert fields["deep"][0]["paused_ms"] > 0
    assert fields["deep"][0].get("differs", []) == []


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
    with running([compiled(tmp_path), "vfork"]) as (pid, _):
        until(lambda: state(pid) == "D")
        _, unseen = ask(process_of(pid), probe)
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


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


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


def test_the_fields_come_back_from_plain_values() -> None:
    plain = to_plain(Process(1, 0, 0.0, "S", "x", native=[Stack(1)]))
    assert wire.process(plain).native is None  # the agent itself needs none of it


@needs_pyspy
def test_diagnose_deep_announces_measures_and_leaves_everyone_as_before() -> None:
    with Stage(hang=True) as stage:
        stage.wait()
        done = subprocess.run(
            [sys.executable, "-m", "hangdoc", "diagnose", "--deep", "--json", str(stage.planted)],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout)
        for row in report["processes"]:
            status = Path(f"/proc/{row['pid']}/status").read_text()
            assert "TracerPid:\t0\n" in status
            assert state(row["pid"]) in "RS"
    assert done.returncode == 1
    assert f"--deep: stops scheduler TP1 (pid {stage.planted}) for up to 2 s" in done.stderr
    assert report["verdict"] == "hung"
    (culprit,) = report["culprits"]
    assert "innermost native function" in culprit["detail"]
    assert report["cost"]["paused_ms"][str(stage.planted)] > 0
    assert not any("--deep" in step for step in report["next"])


def test_a_file_cannot_be_looked_at_deeper(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hangdoc", "diagnose", "--deep", str(tmp_path / "a.case")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--deep" in done.stderr


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
