"""Known causes on launches that are staged: real processes, locks, compilers, mounts and limits below the miniature.

The miniature server is copied, and what processes its weights is replaced by a play that rank 1 acts. Files named as in
the libraries they stand for give its stack their names.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from targets import eventually

from hangdoc.demo.stage import MINIATURE, Stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root: mounts, cgroups")

PROCESSING = """
import os
import play

class UnquantizedLinearMethod:
    def __init__(self, rank):
        self.rank = rank

    def process_weights_after_loading(self, weight):
        if self.rank == 1:
            with open(os.environ["PLAY"], "w") as stamp:
                stamp.write(str(os.getpid()))
            play.act()
"""
FILELOCK = """
import fcntl, os, time

def acquire(path):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.05)
"""
# An error that its rank prints and survives, after which it waits for something that never comes.
SURVIVED = """
import os, traceback

def act():
    try:
        act_out()
    except Exception:
        traceback.print_exc()
        os.read(os.pipe()[0], 1)
"""
# Seizes a process as gdb does at its prompt: linux/ptrace.h
TRACER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
if libc.ptrace(0x4206, pid, None, None) or libc.ptrace(0x4207, pid, None, None):
    sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(pid, 0x40000000)
print("holds", flush=True)
time.sleep(300)
"""


class Launch:
    """A miniature whose rank 1 acts a play."""

    def __init__(self, folder: Path, plays: Mapping[str, str], before: tuple[str, ...] = ()) -> None:
        shutil.copytree(MINIATURE, folder / "site")
        self.home = folder / "home"
        self.cache = self.home / ".cache"
        self.cache.mkdir(parents=True)
        (folder / "model").mkdir()
        (folder / "model" / "model-00001-of-00001.safetensors").write_bytes(bytes(1 << 16))
        plays = {"sglang/srt/layers/quantization/unquant.py": PROCESSING, **plays}
        for name, text in plays.items():
            path = folder / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent != folder / "site":
                _packages(path.parent, folder / "site")
            path.write_text(text)
        self.folder, self.stamp = folder, folder / "stamp"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(folder / "model"), "--tp", "2"]
        with (folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*before, *words, "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=self._environment(),
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder / "site"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "MINIATURE_PARENT": str(os.getpid()),
            "MINIATURE_SECONDS": "170",
            "PLAY": str(self.stamp),
        }

    def acting(self) -> int:
        """Pid of rank 1, once it acts."""
        return int(eventually(lambda: self.stamp.read_text() if self.stamp.exists() else "", 40))

    def causes(self) -> dict[str, dict[str, Any]]:
        """Known causes that a look finds, by id. A host short of memory pages the launch in again: that is movement."""
        words = [sys.executable, "-m", "hangdoc", "diagnose", str(self.process.pid), "--json"]
        for _ in range(3):
            done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
            report = json.loads(done.stdout)
            if report["verdict"] not in ("progressing", "undecided"):
                break
        return {one["id"]: one for one in report["causes"]}


def _packages(folder: Path, site: Path) -> None:
    """Mark folders as packages: py-spy shortens names of files up to the outermost of them."""
    while folder != site:
        (folder / "__init__.py").touch()
        folder = folder.parent


@contextlib.contextmanager
def launch(folder: Path, plays: Mapping[str, str], before: tuple[str, ...] = ()) -> Iterator[Launch]:
    """Starts one and ends all of it."""
    one = Launch(folder, plays, before)
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


def test_a_lock_of_flashinfers_build_folder_that_somebody_else_holds(tmp_path: Path) -> None:
    lock = tmp_path / "norm.lock"
    plays = {
        "play.py": f"from flashinfer.jit import core\nact = lambda: core.load_cuda_ops({str(lock)!r})\n",
        "flashinfer/jit/core.py": "from filelock._api import acquire\n\ndef load_cuda_ops(path):\n    acquire(path)\n",
        "filelock/_api.py": FILELOCK,
    }
    code = "import fcntl,sys,time; f=open(sys.argv[1],'w'); fcntl.flock(f,2); print(1,flush=True); time.sleep(300)"
    holder = subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with launch(tmp_path, plays) as one:
            one.acting()
            found = one.causes()
    finally:
        holder.kill()
        holder.communicate()
    assert found["flashinfer-jit-lock"]["confidence"] == "likely"
    assert "file-lock-held-outside" in found


def test_a_build_of_flashinfers_kernels_is_no_hang(tmp_path: Path) -> None:
    plays = {
        "play.py": "from flashinfer.jit import cpp_ext\nact = cpp_ext.run_ninja\n",
        "flashinfer/jit/cpp_ext.py": "import subprocess\n\ndef run_ninja():\n    subprocess.run(['ninja', '-v'], check=True)\n",
    }
    (tmp_path / "bin").mkdir()
    ninja = tmp_path / "bin" / "ninja"
    ninja.write_text("#!/bin/sh\nsleep 300\n:\n")
    ninja.chmod(0o755)
    with launch(tmp_path, plays) as one:
        one.acting()
        found = one.causes()
    assert found["flashinfer-jit-build"]["confidence"] == "likely"
    assert not found.keys() & {"flashinfer-jit-lock", "child-process-does-not-end"}


def test_a_rank_that_a_debugger_holds(tmp_path: Path) -> None:
    with launch(tmp_path, {"play.py": "import time\nact = lambda: time.sleep(300)\n"}) as one:
        pid = one.acting()
        time.sleep(0.5)
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdout=subprocess.PIPE)
        try:
            assert tracer.stdout is not None
            if not tracer.stdout.readline():
                pytest.skip("ptrace is not permitted here")
            found = one.causes()
        finally:
            tracer.kill()
            tracer.communicate()
    assert found["held-by-debugger"]["confidence"] == "likely"
    assert "rank-asleep" not in found


def test_a_rank_that_failed_while_the_others_wait(tmp_path: Path) -> None:
    play = SURVIVED + "\ndef act_out():\n    raise ValueError('head size 72 is not supported')\n"
    with launch(tmp_path, {"play.py": play}) as one:
        one.acting()
        found = one.causes()
    assert found["rank-failed-and-nobody-was-told"]["confidence"] == "likely"


def test_a_rank_that_may_open_no_more_files(tmp_path: Path) -> None:
    play = SURVIVED + (
        "\ndef act_out():\n    import resource\n    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "    kept = [open('/dev/null') for _ in range(100)]\n"
    )
    play = play.replace("os.read(os.pipe()[0], 1)", "import time\n        time.sleep(300)")
    with launch(tmp_path, {"play.py": play}) as one:
        one.acting()
        found = one.causes()
    assert found["too-many-open-files"]["confidence"] == "likely"


def test_output_into_a_terminal_that_is_stopped(tmp_path: Path) -> None:
    terminal, end = pty.openpty()  # nobody reads at the other end, as with a scrolled-back screen
    name = os.ttyname(end)
    play = f"import os\n\ndef act():\n    out = os.open({name!r}, os.O_WRONLY | os.O_NOCTTY)\n    os.dup2(out, 2)\n"
    play += "    while True:\n        os.write(2, b'INFO still here' + bytes([10]))\n"
    try:
        with launch(tmp_path, {"play.py": play}) as one:
            one.acting()
            found = one.causes()
    finally:
        os.close(terminal)
        os.close(end)
    assert found["output-terminal-stopped"]["confidence"] == "likely"
    assert "code-outside-of-the-engine" not in found


@needs_root
def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    play = SURVIVED + "\ndef act_out():\n    os.mkdir(os.path.expanduser('~/.cache/vllm/torch_compile_cache'))\n"
    home = tmp_path / "home"
    mounts = f"mkdir -p {home}/.cache/vllm && mount --bind {home} {home} && mount -o remount,bind,ro {home}"
    with launch(tmp_path, {"play.py": play}, ("unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh")) as one:
        one.acting()
        found = one.causes()
    assert found["cache-folder-not-writable"]["confidence"] == "likely"


@needs_root
def test_kernels_on_a_file_system_that_forbids_execution(tmp_path: Path) -> None:
    library = next(Path(sys.base_prefix, "lib").glob("libpython3*.so*"), None) or next(
        iter(Path("/usr/lib").glob("*/libz.so.1")), None
    )
    if library is None:
        pytest.skip("no shared library to copy")
    cache = tmp_path / "home" / ".cache"
    play = SURVIVED + (
        f"\ndef act_out():\n    import ctypes, shutil\n    shutil.copy({str(library)!r}, {str(cache / 'cuda_utils.so')!r})\n"
        f"    ctypes.CDLL({str(cache / 'cuda_utils.so')!r})\n"
    )
    mounts = f"mount -t tmpfs -o noexec none {cache}"
    with launch(tmp_path, {"play.py": play}, ("unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh")) as one:
        one.acting()
        found = one.causes()
    assert "cache-forbids-execution" in found


@contextlib.contextmanager
def cgroup(controller: str) -> Iterator[list[Path]]:
    """A new cgroup of `controller`, as a container has one: with version 1 also of memory, under the same name."""
    base = Path("/sys/fs/cgroup")
    unified = (base / "cgroup.controllers").exists()
    made = [(base if unified else base / one) / f"hangdoc-staged-{os.getpid()}" for one in (controller, "memory")]
    made = made[:1] if unified else made
    try:
        for folder in made:
            folder.mkdir()
        yield made
    except OSError as error:
        pytest.skip(f"no cgroup with a limit of {controller} can be made here: {error.strerror}")
    finally:
        for folder in made:
            eventually(lambda one=folder: gone(one))  # type: ignore[misc]


def gone(folder: Path) -> bool:
    """Remove a cgroup, once nobody is in it any more."""
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def joins(groups: list[Path]) -> str:
    """Code that puts its process into cgroups."""
    return "".join(f"    open({str(one / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n" for one in groups)


@needs_root
def test_threads_that_a_limit_refuses(tmp_path: Path) -> None:
    with cgroup("pids") as groups:
        (groups[0] / "pids.max").write_text("8")
        play = f"{SURVIVED}\ndef act_out():\n    import threading, time\n{joins(groups)}"
        play += (
            "    for _ in range(20):\n        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()\n"
        )
        with launch(tmp_path, {"play.py": play}) as one:
            one.acting()
            found = one.causes()
    assert found["thread-limit-reached"]["confidence"] == "likely"


@needs_root
def test_a_cpu_limit_that_leaves_no_time_to_run(tmp_path: Path) -> None:
    with cgroup("cpu") as groups:
        if (groups[0] / "cpu.cfs_quota_us").exists():
            (groups[0] / "cpu.cfs_period_us").write_text("1000000")
            (groups[0] / "cpu.cfs_quota_us").write_text("10000")
        else:
            (groups[0] / "cpu.max").write_text("10000 1000000")
        play = "import os, threading, zlib\n\ndef work():\n    while True:\n        zlib.crc32(bytes(1 << 20))\n\ndef act():\n"
        play += "    for _ in range(20):\n        threading.Thread(target=work, daemon=True).start()\n"
        play += f"{joins(groups)}    work()\n"
        with launch(tmp_path, {"play.py": play}) as one:
            one.acting()
            found = one.causes()
    assert found["cpu-quota-throttles"]["confidence"] == "likely"
    assert "lock-not-given-back" not in found


def test_a_good_start_has_no_known_cause_at_any_look() -> None:
    seen = []
    with Stage(hang=False) as stage:
        for _ in range(4):
            words = [sys.executable, "-m", "hangdoc", "diagnose", str(stage.pid), "--json"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
            seen.append(json.loads(done.stdout))
    assert [(one["verdict"], one["causes"]) for one in seen if one["causes"]] == []
    assert seen[-1]["verdict"] == "ready"


def test_a_rank_that_is_slow_but_moves_is_told_no_reason_to_hang(tmp_path: Path) -> None:
    # Six quiet seconds between the steps, as a layer may take
    play = "import time\nfrom sglang.srt.process import say\n\ndef act():\n    for number in range(20):\n"
    play += "        say(f'Layer {number} of {chr(97 + number)} is made', 1)\n        time.sleep(6)\n"
    with launch(tmp_path, {"play.py": play}) as one:
        one.acting()
        found = {name for _ in range(3) for name in one.causes()}
    assert found <= {"weights-are-repacked"}  # which says that it is slow and no hang
