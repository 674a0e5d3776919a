"""Fixtures of the tests with real processes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from causing import cgroup, holder, start
from sshosts import Site, site

from hangdoc.probes import processes

__all__ = ["cgroup", "holder", "hosts_of", "start", "two_hosts"]


@pytest.fixture
def hosts_of(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """`hosts_of(count, names=…, sshd=…)` makes real hosts, see sshosts.py; they are gone after the test."""
    with contextlib.ExitStack() as ends:
        made: list[Site] = []

        def make(count: int = 1, *, names: Sequence[str] = (), sshd: Mapping[int, str] | None = None) -> Site:
            made.append(ends.enter_context(site(tmp_path / f"site{len(made)}", count, names=names, sshd=sshd)))
            return made[-1]

        yield make


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two real hosts, gpu01 and gpu02, for a whole module."""
    with site(tmp_path_factory.mktemp("two"), 2) as made:
        yield made


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A tree like /proc with one process, copied from this one under a number that no process can have."""
    pid, root, before = 1 << 22, tmp_path / "proc", _children()
    source, target = Path("/proc/self"), root / str(pid)
    (target / "task" / str(pid)).mkdir(parents=True)
    for name in ("fd", "fdinfo", "ns"):
        (target / name).mkdir()
    for name in ("stat", "status", "io", "cgroup", "limits", "cmdline", "environ", "maps"):
        (target / name).write_bytes((source / name).read_bytes())
    for name in ("stat", "status", "schedstat", "wchan"):
        (target / "task" / str(pid) / name).write_bytes((source / name).read_bytes())
    for stat in (target / "stat", target / "task" / str(pid) / "stat"):
        stat.write_text(f"{pid} (stub) S" + stat.read_text().rpartition(")")[2][2:])
    (target / "task" / str(pid) / "syscall").write_text("202 0x10 0x80 0x2 0x0 0x0 0x0 0x1 0x2\n")
    (target / "exe").symlink_to(sys.executable)
    (target / "cwd").symlink_to("/")
    for name in ("pid", "net", "mnt"):
        (target / "ns" / name).symlink_to(f"{name}:[1]")
    (root / "locks").write_text("1: FLOCK  ADVISORY  WRITE 1 00:01:2 0 EOF\n")
    yield root, pid
    assert not _children() - before, "a child was left behind"


def _children() -> set[int]:
    return {one.pid for one in processes.list_all().values() if one.ppid == os.getpid() and one.state != "Z"}
