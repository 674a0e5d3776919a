"""The user's own machine may run macOS: all but probes and agent work where there is no Linux."""

from __future__ import annotations

import subprocess
import sys

# What Linux has and others lack is taken away before anything is imported.
WITHOUT_LINUX = """
import builtins, ctypes, os, select, signal, socket, sys
sys.platform = "darwin"
for module, names in (
    (os, "pidfd_open memfd_create setns unshare pipe2 O_PATH O_TMPFILE sched_getaffinity POSIX_FADV_SEQUENTIAL waitid"),
    (select, "epoll POLLRDHUP"),
    (signal, "pidfd_send_signal sigtimedwait sigwaitinfo"),
    (socket, "AF_NETLINK NETLINK_ROUTE SO_PEERCRED SOCK_CLOEXEC"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
true = builtins.open
def opened(file, *rest, **more):
    if str(file).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", file)
    return true(file, *rest, **more)
builtins.open = opened
"""
EVERYTHING = """
import importlib, pkgutil
import hangdoc
for one in pkgutil.walk_packages(hangdoc.__path__, "hangdoc."):
    if not one.name.startswith(("hangdoc.agent", "hangdoc.probes", "hangdoc.demo.miniature", "hangdoc.__main__")):
        importlib.import_module(one.name)
"""
A_HOST = """
from hangdoc.hosts.cluster import ClusterReach
from hangdoc.hosts.roads import Road
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Sample
reach = ClusterReach([Road("gpu01", ("sh",))])
answer = reach.exchange({"gpu01": Ask(1, ("scan",))})["gpu01"]
assert isinstance(answer, Sample) and answer.processes, answer
reach.close()
"""
HERE = """
from hangdoc.cli import app
assert app.run(["diagnose"]) == 2
"""


def without_linux(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LINUX + script], capture_output=True, text=True, timeout=60, check=False
    )


def test_everything_that_stays_here_can_be_imported() -> None:
    done = without_linux(EVERYTHING)
    assert done.returncode == 0, done.stderr


def test_a_host_can_be_asked() -> None:
    done = without_linux(A_HOST)
    assert done.returncode == 0, done.stderr


def test_this_machine_itself_is_refused_in_words() -> None:
    done = without_linux(HERE)
    assert (done.returncode, "runs no Linux" in done.stderr) == (0, True), done.stderr
