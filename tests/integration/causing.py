"""Launches with a reason to stop, for the tests of known causes: a few lines under the names of an engine and its libraries,
in real processes, with real files, locks, sockets, namespaces and cgroups."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT_ARGS = ("--model-path", "/models/tiny", "--host", "127.0.0.1")
Start = Callable[..., subprocess.Popen[bytes]]
FOREVER = "import time; time.sleep(600)"
hit_and_near_miss = pytest.mark.parametrize("found", [True, False])  # with the decisive thing, and without


def free_port() -> int:
    """A TCP port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `python -m sglang.launch_server`, which reads its arguments and there runs the code given. `modules` are further
    files below site-packages; `before` is what stands before Python on the command line and ends in its exec."""
    started: list[subprocess.Popen[bytes]] = []

    def launch(
        code: str,
        *words: str,
        modules: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        before: tuple[str, ...] = (),
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        site = tmp_path / "lib" / "python3" / "site-packages"
        server = {
            "sglang/launch_server.py": "from sglang.srt.server_args import prepare_server_args\nprepare_server_args()",
            "sglang/srt/server_args.py": "def prepare_server_args():\n"
            + textwrap.indent(textwrap.dedent(code), "    "),
        }
        for name, text in {**server, **(modules or {})}.items():
            file = site / name
            file.parent.mkdir(parents=True, exist_ok=True)
            for folder in file.parents:
                if folder == site:
                    break
                (folder / "__init__.py").touch()
            file.write_text(textwrap.dedent(text))
        clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        with (tmp_path / "server.log").open("ab") as log:
            outputs = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, **options}
            started.append(
                subprocess.Popen(
                    [*before, sys.executable, "-m", "sglang.launch_server", *ROOT_ARGS, *words],
                    env={**clean, "PYTHONPATH": str(site), "PYTHONUNBUFFERED": "1", **(env or {})},
                    cwd=tmp_path,
                    start_new_session=True,
                    **outputs,
                )
            )
        return started[-1]

    yield launch
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        for pipe in (one.stdin, one.stdout):
            if pipe is not None:
                pipe.close()


# The launcher waits for its ranks as the engine does; a rank runs `work` of its own module.
_RANKS = {
    "sglang/srt/entrypoints/engine.py": """
        import os, subprocess, sys
        def _wait_for_scheduler_ready(reader):
            os.read(reader, 1)
        def _launch_subprocesses(ranks):
            reader, writer = os.pipe()
            for rank in range(ranks):
                words = [f"sglang::scheduler_TP{rank}", "-m", "sglang.srt.managers.scheduler", str(rank)]
                subprocess.Popen(words, executable=sys.executable, pass_fds=[writer])
            os.close(writer)
            _wait_for_scheduler_ready(reader)
            raise RuntimeError("the schedulers have ended")
        """,
    "sglang/srt/managers/scheduler.py": """
        import importlib, sys
        def run_scheduler_process(rank):
            importlib.import_module(f"sglang.srt.rank{rank}").work()
        run_scheduler_process(int(sys.argv[1]))
        """,
}


def ranks(*codes: str) -> tuple[str, dict[str, str]]:
    """Code of a launcher, and modules, with which each rank runs its code."""
    works = {
        f"sglang/srt/rank{number}.py": "def work():\n" + textwrap.indent(textwrap.dedent(code), "    ")
        for number, code in enumerate(codes)
    }
    launcher = f"from sglang.srt.entrypoints.engine import _launch_subprocesses as go\ngo({len(codes)})"
    return launcher, {**_RANKS, **works}


SETTLE_S = 2.0  # what moved just before a look makes it undecided


def look(process: subprocess.Popen[bytes], *words: str) -> dict[str, Any]:
    """The report on a launch, after it had the time to come where it stops; a second one where something still moved."""
    time.sleep(SETTLE_S)
    command = [sys.executable, "-m", "hangdoc", "diagnose", str(process.pid), "--json", "--baseline", "none", *words]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.stdout, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        if report["verdict"] != "undecided":
            break
    return report


def ids(report: dict[str, Any]) -> list[str]:
    """The causes that a report names."""
    return [one["id"] for one in report["causes"]]


def first(report: dict[str, Any]) -> dict[str, Any]:
    """The cause that a report names first."""
    assert report["causes"], (report["verdict"], report["summary"], report["undecided"])
    cause: dict[str, Any] = report["causes"][0]
    return cause


def expect(report: dict[str, Any], cause: str, found: bool) -> None:
    """The cause is named, and more than a hint; or, of a near miss, it is not named at all and something was seen."""
    told = {one["id"]: one["confidence"] for one in report["causes"]}
    situation = (report["verdict"], report["phase"], report["summary"], told, report["undecided"])
    if not found:
        assert cause not in told, situation
        assert report["processes"], situation
        return
    assert told.get(cause) in ("likely", "certain"), situation


def private_mounts(*commands: str) -> tuple[str, ...]:
    """What to put before a command so that these mounts are there for it alone. The test is skipped where none can be made."""
    return _unshare("--mount", "--propagation", "private", commands=commands)


def private_network(*commands: str) -> tuple[str, ...]:
    """The same with a network of its own, in which loopback is up, and mounts of its own."""
    return _unshare("--net", "--mount", "--propagation", "private", commands=("ip link set lo up", *commands))


def _unshare(*words: str, commands: tuple[str, ...]) -> tuple[str, ...]:
    if shutil.which("unshare") is None or ("--net" in words and shutil.which("ip") is None):
        pytest.skip("no unshare or no ip here")
    prefix = ("unshare", *words, "sh", "-c", " && ".join(commands) + ' && exec "$@"', "sh")
    done = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        pytest.skip(f"no namespace of this kind can be made here: {done.stderr.strip()[:200]}")
    return prefix


def named(program: str, folder: Path) -> str:
    """A copy of a program of this machine under another name, for a compiler that is none."""
    source = shutil.which(program.partition(" as ")[0])
    if source is None:
        pytest.skip(f"no {program} here")
    target = folder / program.rpartition(" as ")[2]
    shutil.copy(source, target)
    return str(target)


def _cgroup(controller: str) -> Path:
    """A new cgroup, of v1's `controller` or of v2; the test is skipped where none can be made."""
    base = Path("/sys/fs/cgroup")
    if not (base / "cgroup.controllers").exists():
        base /= controller
    folder = base / f"hangdoc-test-{controller}-{os.getpid()}"
    if not (base / "cgroup.procs").exists():
        pytest.skip(f"no cgroups of {controller} here")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    return folder


def write_first(folder: Path, *names: tuple[str, str]) -> None:
    """Write into the first of these files that is there: cgroups of v1 and of v2 name them differently."""
    name, text = next((name, text) for name, text in names if (folder / name).exists())
    (folder / name).write_text(text)


@pytest.fixture
def cgroup() -> Iterator[Callable[[str], Path]]:
    """Makes cgroups, and ends what is in them and removes them."""
    made: list[Path] = []

    def make(controller: str) -> Path:
        made.append(_cgroup(controller))
        return made[-1]

    yield make
    for folder in made:
        with contextlib.suppress(StopIteration):
            write_first(folder, ("cgroup.freeze", "0"), ("freezer.state", "THAWED"))
        for _ in range(100):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            for pid in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)


@pytest.fixture
def holder() -> Iterator[Callable[[Path], int]]:
    """Locks files by programs of their own, whose pids it gives."""
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(flush=True); time.sleep(600)"
    running: list[subprocess.Popen[bytes]] = []

    def hold(file: Path) -> int:
        running.append(subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE))
        out = running[-1].stdout
        assert out
        out.readline()
        return running[-1].pid

    yield hold
    for one in running:
        one.kill()
        one.wait()
        if one.stdout:
            one.stdout.close()
