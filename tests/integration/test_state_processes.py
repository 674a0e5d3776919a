"""Identity, titles, descriptors and environment of real processes; also for a reader without permission."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from targets import compiled, eventually, running

from hangdoc.model.plain import to_plain
from hangdoc.model.sample import Process, Unseen
from hangdoc.probes import environ, fds, processes, threads

# Writes over its arguments and environment as setproctitle does: the title, then NULs to the end of both.
TITLED = """
import ctypes, sys
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
first, end = int(stat[45]), int(stat[48])
ctypes.memset(first, 0, end - first)
title = sys.argv[1].encode()
ctypes.memmove(first, title, len(title))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("waiting"))


def filled(pid: int, unseen: list[Unseen] | None = None) -> Process:
    found = processes.fill("/proc", processes.list_all()[pid], [] if unseen is None else unseen)
    assert found is not None
    return found


@pytest.mark.parametrize("title", ["engine::worker_TP0", "engine::worker with a long title " + "x" * 300])
def test_a_title_written_over_the_arguments_is_recognised(title: str) -> None:
    with running([sys.executable, "-c", TITLED, title, *["padding"] * 20]) as (pid, _):
        unseen: list[Unseen] = []
        found = filled(pid, unseen)
        assert found.overwritten
        assert found.cmdline == (title,)
        assert environ.read("/proc", pid, unseen) is None
        assert [(one.probe, one.reason) for one in unseen] == [("environ", "overwritten")]


def test_ordinary_arguments_and_environment_are_read_and_masked() -> None:
    code = "print('ready', flush=True); import sys; sys.stdin.read()"
    variables = {
        "HF_TOKEN": "hf_abcdefghijklmnop",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "MY_OWN": "x",
        "https_proxy": "http://u:pw1@h:1",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--api-key", "secret-value", ""],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        found = filled(process.pid)
        assert found.cmdline == (sys.executable, "-c", code, "--api-key", "***", "***")
        assert not found.overwritten
        expected = {"HF_TOKEN": "***", "VLLM_LOGGING_LEVEL": "DEBUG", "https_proxy": "http://u:***@h:1"}
        assert environ.read("/proc", process.pid, []) == expected
        limits = environ.limits("/proc", process.pid, [])
        assert limits is not None
        assert set(limits["Max open files"]) <= {"unlimited", *(str(one) for one in range(1 << 21))}
        assert found.pid_ns == int(str(Path("/proc/self/ns/pid").readlink())[5:-1])
        assert found.io is not None
        assert found.rss is not None
        assert found.rss > 1 << 20
    finally:
        process.kill()
        process.communicate()


def test_a_zombie_has_its_status_and_nothing_else(program: Path) -> None:
    with running([program, "zombie"]) as (_, tids):
        child = tids["child"]
        eventually(lambda: processes.list_all()[child].state == "Z")
        unseen: list[Unseen] = []
        found = filled(child, unseen)
        assert found.exit_code is not None
        assert os.waitstatus_to_exitcode(found.exit_code) == 7
        assert found.cmdline is None
        assert {one.reason for one in unseen} == {"zombie"}
        assert environ.read("/proc", child, unseen) is None
        assert unseen[-1].reason == "zombie"


def test_another_process_with_the_same_number_is_not_taken_for_the_old_one() -> None:
    unseen: list[Unseen] = []
    mine = processes.list_all()[os.getpid()]
    assert processes.fill("/proc", replace(mine, start=mine.start - 1), unseen) is None
    assert [one.reason for one in unseen] == ["gone"]


def test_descriptors_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as file:
        file.write("hello")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        epoll, (reading, writing) = select.epoll(), os.pipe()
        epoll.register(reading, select.EPOLLIN)
        folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        memory = os.memfd_create("x")
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            found = fds.read("/proc", os.getpid(), [])
            kinds = {
                number: found[number].kind for number in (file.fileno(), epoll.fileno(), reading, folder, memory, null)
            }
            assert list(kinds.values()) == ["file", "epoll", "pipe", "dir", "memfd", "device"]
            assert found[file.fileno()].pos == 5
            assert found[file.fileno()].inode == log.stat().st_ino
            assert any("FLOCK" in line and "WRITE" in line for line in found[file.fileno()].locks)
            assert found[epoll.fileno()].watched == (reading,)
            assert found[reading].inode == found[writing].inode == os.fstat(reading).st_ino
            unseen: list[Unseen] = []
            assert len(fds.read("/proc", os.getpid(), unseen, limit=2)) == 2
            assert [one.reason for one in unseen] == ["skipped"]
            assert set(fds.read("/proc", os.getpid(), [], only=(reading,))) == {reading}
        finally:
            epoll.close()
            for one in (reading, writing, folder, memory, null):
                os.close(one)


NOBODY = 65534


def as_nobody(look: Callable[[], Any]) -> Any:
    """What `look` gives in a forked child that gave its rights away."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, json.dumps(to_plain(look())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


def test_what_is_denied_is_unseen_once_and_never_looks_healthy(program: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving rights away needs root")
    with running([program, "abba"]) as (pid, _):
        eventually(lambda: {one.state for one in threads.read("/proc", pid, None, []).values()} == {"S"})

        def look() -> Any:
            unseen: list[Unseen] = []
            table = threads.read("/proc", pid, None, unseen)
            again = threads.read("/proc", pid, table, unseen)
            return {"table": table, "again": again, "unseen": unseen}

        seen = as_nobody(look)
        for table in (seen["table"], seen["again"]):
            for one in table.values():
                assert "wchan" not in one
                assert "syscall" not in one
                assert one["state"] == "S"
        assert [(one["probe"], one["reason"]) for one in seen["unseen"]] == [("threads", "denied")] * 4


def test_a_zombies_status_reads_zero_when_denied_and_is_then_unseen(program: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving rights away needs root")
    with running([program, "zombie"]) as (_, tids):
        eventually(lambda: processes.list_all()[tids["child"]].state == "Z")

        def look() -> Any:
            unseen: list[Unseen] = []
            return {"process": filled(tids["child"], unseen), "unseen": unseen}

        seen = as_nobody(look)
        assert "exit_code" not in seen["process"]
        assert "denied" in {one["reason"] for one in seen["unseen"]}


def test_a_stop_signal_that_is_pending_on_the_process_is_seen(program: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running([program, "vfork", fifo]) as (pid, _):
        eventually(lambda: processes.list_all()[pid].state == "D")
        assert not filled(pid).pending_stop
        os.kill(pid, signal.SIGSTOP)
        assert filled(pid).pending_stop
        os.kill(pid, signal.SIGCONT)


def test_what_a_process_may_run_on_is_told() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    one = allowed[-1]
    child = subprocess.Popen(["sleep", "60"])
    try:
        os.sched_setaffinity(child.pid, {one})
        found = environ.confinement("/proc", child.pid)
    finally:
        child.kill()
        child.wait()
    assert found["cpus_allowed"] == str(one)
    assert found["seccomp"] in (0, 1, 2)
    assert (found["capabilities"] == 0) == (os.geteuid() != 0)
    assert environ.confinement("/proc", child.pid) == {}
