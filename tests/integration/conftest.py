"""Fixtures of the tests with real processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from causing import cgroup, holder, start
from sshosts import Site, site

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
