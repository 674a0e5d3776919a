"""Facts about this host, and file systems that do not answer."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fuse import silent_mount
from process_of import end, process_of, python, until

from hangdoc.model.sample import Unseen
from hangdoc.probes import hostfacts, logs, mounts, packages, processes, redact

ME = os.getpid()


def probers(silent: Path) -> list[int]:
    """Probers of that mount that are still there, those that ended collected first."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
    name = mounts._name(next(one.device for one in mounts.own() if one.point == str(silent)))
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _comm(one.name) == name]


def _comm(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_this_host() -> None:
    unseen: list[Unseen] = []
    found = hostfacts.read("/proc", {ME: process_of(ME)}, unseen)
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.mem_total is not None
    assert found.mem_available is not None
    assert 0 < found.mem_available <= found.mem_total
    assert found.uid == os.geteuid()
    assert found.net_ns == int(str(Path("/proc/self/ns/net").readlink())[5:-1])
    assert len(found.cgroups) == 1
    assert found.dead_mounts == ()
    assert all(one.probe == "host" for one in unseen)


def test_a_mount_that_does_not_answer_is_named_and_never_waited_for(tmp_path: Path) -> None:
    with silent_mount(tmp_path) as point:
        for again in (False, True):
            unseen: list[Unseen] = []
            began = time.monotonic()
            found = hostfacts.read("/proc", {ME: process_of(ME)}, unseen)
            took = time.monotonic() - began
            assert str(point) in found.dead_mounts
            assert found.slow_mounts[str(point)] == "fuse"
            assert "timed-out" in [one.reason for one in unseen]
            assert took < (0.4 if again else 1.5)  # the second look finds the first one's prober and asks nobody
            stuck = probers(point)
            assert len(stuck) == 1
        with (tmp_path.parent / "open").open("w"):
            assert mounts.dead_below("/proc", ME, [str(tmp_path.parent / "open"), str(point / "x")]) == [
                str(point / "x")
            ]
    until(lambda: os.waitpid(stuck[0], os.WNOHANG)[0] != 0)  # it ended with the mount


def test_a_log_on_such_a_mount_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "mask", lambda text: text)
    (tmp_path / "m").mkdir()
    good = tmp_path / "good.log"
    with good.open("wb") as out:
        child = python("print('fine', flush=True); import time; time.sleep(100)", stdout=out, stderr=subprocess.DEVNULL)
    try:
        until(lambda: good.stat().st_size > 0)
        with silent_mount(tmp_path / "m") as point:
            unseen: list[Unseen] = []
            found = logs.read("/proc", {child.pid: process_of(child.pid)}, (str(point / "server.log"),), {}, unseen)
            stuck = probers(point)
            assert len(stuck) == 1
        by_path = {one.path: one for one in found}
        assert by_path[str(good)].size == 5
        assert by_path[str(point / "server.log")].note == "its file system does not answer"
        assert [one.reason for one in unseen] == ["timed-out"]
        until(lambda: os.waitpid(stuck[0], os.WNOHANG)[0] != 0)
    finally:
        end(child)


def test_packages_on_such_a_mount_are_not_touched(tmp_path: Path) -> None:
    member = replace(process_of(ME), cmdline=(str(tmp_path / "venv/bin/python"),))
    with silent_mount(tmp_path) as point:
        unseen: list[Unseen] = []
        packages.read("/proc", member, (), unseen)
        stuck = probers(point)
        assert len(stuck) == 1
    assert [one.reason for one in unseen] == ["timed-out"]
    until(lambda: os.waitpid(stuck[0], os.WNOHANG)[0] != 0)


def test_a_prober_that_nobody_reaps_does_not_keep_its_mount_dead(tmp_path: Path) -> None:
    child = python(f"import os; open('/proc/self/comm', 'w').write({mounts._name('0:7')!r}); os._exit(0)")
    until(lambda: (one := processes.stat_of("/proc", child.pid)) is not None and one.state == "Z")
    assert _comm(str(child.pid)) == mounts._name("0:7")
    assert mounts.dead([("0:7", str(tmp_path))]) == []
    end(child)


def test_a_mount_that_answers_is_not_dead(tmp_path: Path) -> None:
    assert mounts.dead([("0:0", str(tmp_path)), ("0:1", str(tmp_path / "missing"))]) == []
