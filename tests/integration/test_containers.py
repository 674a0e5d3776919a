"""A launch inside namespaces of its own, as a container engine makes them: seen from its host, and from within."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hangdoc.demo.stage import MINIATURE

PORT = 30000
SCRIPT = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
hostname box
test -z "$FROM" || echo "$FROM" > /proc/sys/kernel/ns_last_pid
ip link set lo up
exec "$@" {output}
"""


def missing() -> str:
    if os.geteuid() != 0:
        return "needs root to make namespaces"
    lacking = [tool for tool in ("unshare", "nsenter", "ip", "mount", "setpriv") if shutil.which(tool) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@dataclass(frozen=True)
class Box:
    """A container with a miniature server in it. `pid` is that of its first process as the host knows it."""

    pid: int
    stamp: Path

    def planted(self) -> int:
        """The rank that dead-locked, as it knows itself."""
        deadline = time.monotonic() + 60
        while not (self.stamp.exists() and self.stamp.read_text()):
            assert time.monotonic() < deadline, "nothing dead-locked"
            time.sleep(0.1)
        return int(self.stamp.read_text())

    def enter(self, *before: str) -> list[str]:
        """Words before a command in it."""
        return ["nsenter", f"--target={self.pid}", "--net", "--pid", "--uts", "--mount", "--", *before]


@contextlib.contextmanager
def box(
    folder: Path, output: str, *, hang: bool = True, stdout: Any = subprocess.DEVNULL, first_pid: int = 0
) -> Iterator[Box]:
    """A container; `output` is what its shell does with the output of the server."""
    model = folder / "model"
    model.mkdir()
    (model / "model-00001-of-00001.safetensors").write_bytes(bytes(1 << 20))
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(model), "--port", str(PORT)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MINIATURE_")}
    env |= {
        "PYTHONPATH": str(MINIATURE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "MINIATURE_SECONDS": "200",
        "MINIATURE_STAMP": str(folder / "stamp"), **({"MINIATURE_HANG": "1"} if hang else {}),
        "FROM": str(first_pid or ""),
    }  # fmt: skip
    spaces = ["unshare", "--net", "--pid", "--uts", "--ipc", "--mount", "--fork", "--mount-proc", "--kill-child"]
    outer = subprocess.Popen(
        [*spaces, "sh", "-c", SCRIPT.format(output=output), "sh", *words], env=env, stdin=subprocess.DEVNULL,
        stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        deadline = time.monotonic() + 20
        while not children.read_text().split():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Box(int(children.read_text().split()[0]), folder / "stamp")
    finally:
        for word in Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split():
            os.kill(int(word), signal.SIGKILL)
        outer.kill()
        outer.wait(20)


def diagnose(*words: str, before: tuple[str, ...] | list[str] = ()) -> Any:
    done = subprocess.run(
        [*before, sys.executable, "-m", "hangdoc", "diagnose", *words, "--json"], capture_output=True, text=True, timeout=90,
        check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_hang_in_a_container_seen_from_its_host(tmp_path: Path) -> None:
    with box(tmp_path, "> /mnt/server.log 2>&1") as one:
        inside = one.planted()
        report = diagnose(str(one.pid))
        (culprit,) = report["culprits"]
        assert (culprit["rank"], culprit["mechanism"], culprit["nstid"]) == ("TP1", "mutex-self", inside)
        assert culprit["pid"] != inside
        (log,) = [log for log in report["logs"] if log["via"] == "file"]
        assert log["path"] == "/mnt/server.log"  # as the container sees it: the host has another /mnt
        assert any("Load weight" in line for line in log["tail"])
        assert [row["health"] for row in report["ports"] if row["port"] == PORT] == ["refused"]
        again = diagnose(str(culprit["pid"]))  # any member, as the host numbers it
        assert [row["pid"] for row in again["culprits"]] == [culprit["pid"]]


def test_a_pid_from_inside_the_container_is_understood_on_its_host(tmp_path: Path) -> None:
    with box(tmp_path, "> /mnt/server.log 2>&1", first_pid=29_000) as one:
        inside = one.planted()
        if Path(f"/proc/{inside}").exists():
            pytest.skip(f"this host has a process {inside} of its own")
        report = diagnose(str(inside))
        assert [row["nstid"] for row in report["culprits"]] == [inside]


def test_a_server_in_a_container_is_ready_by_the_health_path_in_its_own_network(tmp_path: Path) -> None:
    with box(tmp_path, "> /mnt/server.log 2>&1", hang=False) as one:
        deadline = time.monotonic() + 60
        report = diagnose(str(one.pid))
        while report["verdict"] != "ready" and time.monotonic() < deadline:
            report = diagnose(str(one.pid))
        assert report["verdict"] == "ready"
        assert [row["health"] for row in report["ports"] if row["port"] == PORT] == ["200"]


def test_seen_from_within_with_its_log_out_of_sight_and_no_right_to_trace(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    drain = subprocess.Popen(
        ["cat"], stdin=reader, stdout=subprocess.DEVNULL
    )  # a container engine that reads its output
    os.close(reader)
    try:
        with box(tmp_path, "", stdout=writer) as one:
            os.close(writer)
            writer = -1
            inside = one.planted()
            weak = one.enter("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
            report = diagnose(before=weak)
            denied = {row["probe"] for row in report["unseen"] if row["reason"] == "denied"}
            assert "stacks" in denied
            assert all(row["fix"] for row in report["unseen"])
            assert report["verdict"] in ("suspect", "hung", "undecided")  # by what is left; never healthy
            assert any("--log" in row["detail"] for row in report["unseen"] if row["probe"] == "logs")
            # Its network namespace may not be asked for either, but the tables of sockets are the same.
            assert [row["health"] for row in report["ports"] if row["port"] == PORT] == ["refused"]
            assert {row["rank"] for row in report["ranks"] if row["role"] == "scheduler"} == {"TP0", "TP1"}
            strong = diagnose(str(inside), before=one.enter())
            assert [(row["rank"], row["pid"]) for row in strong["culprits"]] == [("TP1", inside)]
            assert [log["via"] for log in strong["logs"]] == ["pipe"]
            assert "no reader can be seen from here" in strong["logs"][0]["note"]
    finally:
        if writer >= 0:
            os.close(writer)
        drain.wait(20)
