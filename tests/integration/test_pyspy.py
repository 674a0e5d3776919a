"""Real dumps of real processes: running, stopped, in state D, in another pid namespace; and tools that misbehave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from process_of import end, process_of, python, state, until

from hangdoc.model.sample import Stack, Unseen
from hangdoc.probes import pyspy

TOOL = str(Path(sys.executable).with_name("py-spy"))
pytestmark = pytest.mark.skipif(not Path(TOOL).exists(), reason="no py-spy beside this Python")

TARGET = """
import threading, time
def in_the_thread(): time.sleep(1000)
def at_the_top():
    threading.Thread(target=in_the_thread, name="worker", daemon=True).start()
    print("ready", flush=True)
    time.sleep(1000)
at_the_top()
"""


@pytest.fixture
def target() -> Iterator[subprocess.Popen[bytes]]:
    child = python(TARGET, stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    yield child
    end(child)


def dump(pid: int, tool: str = TOOL, deadline: float = 10.0) -> tuple[list[Stack] | None, str, list[Unseen]]:
    unseen: list[Unseen] = []
    stacks, version = pyspy.dump("/proc", process_of(pid), tool, deadline, unseen)
    return stacks, version, unseen


def functions(stacks: list[Stack] | None) -> set[str]:
    return {frame.function for one in stacks or [] for frame in one.frames}


def test_stacks_with_host_tids(target: subprocess.Popen[bytes]) -> None:
    stacks, version, unseen = dump(target.pid)
    assert unseen == []
    assert stacks is not None
    assert version == f"{sys.version_info[0]}.{sys.version_info[1]}"
    by_function = {one.frames[-1].function: one for one in stacks}
    main = by_function["<module>"]
    assert [frame.function for frame in main.frames] == ["at_the_top", "<module>"]
    assert main.tid == target.pid
    assert {str(one.tid) for one in stacks} == {one.name for one in Path(f"/proc/{target.pid}/task").iterdir()}


def test_a_stopped_target_is_read_and_stays_stopped(target: subprocess.Popen[bytes]) -> None:
    target.send_signal(signal.SIGSTOP)
    until(lambda: state(target.pid) == "T")
    assert "at_the_top" in functions(dump(target.pid)[0])
    assert state(target.pid) == "T"


WATCHER = """
import os, sys
pid, seen, looks = sys.argv[1], set(), 0
print("ready", flush=True)
os.set_blocking(0, False)
while True:
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat") as stat:
            seen.add(stat.read().rpartition(")")[2].split()[0])
        looks += 1
    try:
        if os.read(0, 1) == b"":
            break
    except BlockingIOError:
        pass
print(looks, "".join(sorted(seen)), flush=True)
"""


def test_no_thread_is_ever_stopped_or_traced(target: subprocess.Popen[bytes]) -> None:
    """A separate process looks at the state of every thread without pause while 50 dumps are made."""
    watcher = subprocess.Popen(
        [sys.executable, "-S", "-c", WATCHER, str(target.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert watcher.stdout
        assert watcher.stdin
        assert watcher.stdout.readline() == b"ready\n"
        for _ in range(50):
            assert "at_the_top" in functions(dump(target.pid)[0])
        watcher.stdin.close()
        looks, seen = watcher.stdout.readline().split()
        assert int(looks) > 200
        assert set(seen.decode()) <= set("RSD")
    finally:
        watcher.stdin = None
        end(watcher)


VFORK = """
#include <sys/types.h>
#include <unistd.h>
int go(void) { pid_t pid = vfork(); if (pid == 0) { pause(); _exit(0); } return pid; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_thread_in_state_d_is_read_and_stays_there(tmp_path: Path) -> None:
    (tmp_path / "v.c").write_text(VFORK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "v.so", tmp_path / "v.c"], check=True)
    child = python(f"import ctypes\ndef blocked(): ctypes.CDLL({str(tmp_path / 'v.so')!r}).go()\nblocked()")
    inner = 0
    try:
        until(lambda: state(child.pid) == "D")
        inner = int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())
        stacks, _, unseen = dump(child.pid)
        assert unseen == []
        assert "blocked" in functions(stacks)
        assert (state(child.pid), state(inner)) == ("D", "S")
    finally:
        if inner:
            os.kill(inner, signal.SIGKILL)
        end(child)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_tids_of_another_pid_namespace_are_mapped() -> None:
    outer = subprocess.Popen(
        ["unshare", "-p", "--fork", "--kill-child", sys.executable, "-S", "-c", TARGET], stdout=subprocess.PIPE
    )
    try:
        assert outer.stdout
        if outer.stdout.readline() != b"ready\n":
            pytest.skip("no pid namespace can be made here")
        pid = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        process = process_of(pid)
        assert process.nspid == (pid, 1)
        stacks, _, _ = dump(pid)
        assert {one.tid for one in stacks or []} == {int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()}
    finally:
        end(outer)


def test_no_python_and_no_process() -> None:
    child = subprocess.Popen(["sleep", "100"])
    try:
        until(lambda: str(Path(f"/proc/{child.pid}/exe").readlink()).endswith("sleep") or state(child.pid) == "S")
        process = process_of(child.pid)
        stacks, _, unseen = dump(child.pid)
        assert stacks is None
        assert [one.reason for one in unseen] == ["unsupported"]
    finally:
        end(child)
    late: list[Unseen] = []
    assert pyspy.dump("/proc", process, TOOL, 5.0, late) == (None, "")
    assert [one.reason for one in late] == ["gone"]


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can read, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_denied_is_said(target: subprocess.Popen[bytes], public: Path) -> None:
    tool = shutil.copy(TOOL, public / "py-spy")
    process = process_of(target.pid)
    mine, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgid(65534)
        os.setuid(65534)
        unseen: list[Unseen] = []
        pyspy.dump("/proc", process, str(tool), 10.0, unseen)
        os.write(its, ",".join(one.reason for one in unseen).encode())
        os._exit(0)
    os.close(its)
    os.waitpid(pid, 0)
    assert os.read(mine, 100) == b"denied"
    os.close(mine)


def script(folder: Path, body: str, name: str = "py-spy") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_tool_that_never_ends(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    began = time.monotonic()
    stacks, _, unseen = dump(target.pid, script(tmp_path, "exec sleep 100"), deadline=0.3)
    assert stacks is None
    assert [one.reason for one in unseen] == ["timed-out"]
    assert time.monotonic() - began < 3


def test_a_tool_that_never_stops_talking_or_talks_nonsense(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert dump(target.pid, script(tmp_path, "exec yes", "yes"))[2][0].reason == "timed-out"
    for number, body in enumerate(("echo nonsense", "echo '[{}]'", "echo 3", "echo broken >&2; exit 7")):
        stacks, _, unseen = dump(target.pid, script(tmp_path, body, f"n{number}"))
        assert stacks is None
        assert [one.reason for one in unseen] == ["failed"]


def test_the_tool_dies_with_us(tmp_path: Path) -> None:
    tool = script(tmp_path, f"echo $$ > {tmp_path / 'pid'}; exec sleep 100")
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom hangdoc.probes import pyspy; pyspy.run([{tool!r}], 60)"
    caller = python(code)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    pid = int((tmp_path / "pid").read_text())
    until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    end(caller)
    until(lambda: state(pid) in ("", "Z"))


def test_the_tool_ends_by_its_own_timer(tmp_path: Path) -> None:
    """What is set before exec survives it: no kill of ours is needed."""
    code, _, _ = pyspy.run([script(tmp_path, "exec sleep 100")], 0.2)
    assert code is None
    child = python(
        f"import sys; sys.path[:0] = {sys.path!r}\nimport ctypes, os\nfrom hangdoc.probes import pyspy\n"
        "pyspy._end_with_us(ctypes.CDLL(None), 0.1, os.getppid()); os.execvp('sleep', ['sleep', '100'])"
    )
    try:
        assert child.wait(10) == -signal.SIGALRM
    finally:
        end(child)


def test_find_prefers_ours_over_one_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = process_of(os.getpid())
    elsewhere = type(me)(me.pid, 1, 0.0, "S", "", exe="/nonexistent/python", cmdline=())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pyspy.find("/proc", elsewhere, None) == (None, "no py-spy found")
    old = script(tmp_path, "echo py-spy 0.3.14")
    path, why = pyspy.find("/proc", elsewhere, None)
    assert path is None
    assert "0.3.14" in why
    assert old in why
    assert pyspy.find("/proc", elsewhere, TOOL)[0] == TOOL
    assert pyspy.find("/proc", me, None)[0] == TOOL  # beside its own interpreter


def test_a_version_is_asked_once_for_all_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspy, "_VERSIONS", {})
    monkeypatch.setenv("PATH", "")
    elsewhere = replace(process_of(os.getpid()), exe="/nonexistent/python", cmdline=())
    tool = script(tmp_path, f"echo asked >> {tmp_path}/asked; echo py-spy 0.4.3")
    assert pyspy.find("/proc", elsewhere, tool) == (tool, "0.4.3")
    learnt = json.loads(json.dumps(pyspy.versions()))  # as a child's answer brings it
    monkeypatch.setattr(pyspy, "_VERSIONS", {})
    pyspy.remember(learnt)
    assert pyspy.find("/proc", elsewhere, tool) == (tool, "0.4.3")
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_tool_that_anybody_could_have_put_there_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = process_of(os.getpid())
    monkeypatch.setenv("PATH", "")
    planted = Path(script(tmp_path, f"touch {tmp_path / 'ran'}; echo py-spy 9.9.9"))
    theirs = type(me)(me.pid, 1, 0.0, "S", "", exe=str(tmp_path / "python"), cmdline=())
    planted.chmod(0o777)
    assert pyspy.find("/proc", theirs, None)[0] is None
    planted.chmod(0o755)
    tmp_path.chmod(0o777)
    assert pyspy.find("/proc", theirs, None)[0] is None
    assert not (tmp_path / "ran").exists()
