"""Known causes on real processes, files, locks, sockets and cgroups: each is found, with its evidence and steps, and its
near miss is not. The engine and the libraries are a few lines each under the real names; everything else is real."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from causing import Start, first, free_port, ids, look, write_first

pytestmark = pytest.mark.slow

BATON = {
    "torch/utils/file_baton.py": """
        import os, time
        class FileBaton:
            def __init__(self, path): self.path = path
            def wait(self):
                while os.path.exists(self.path): time.sleep(0.1)
        """
}
WAIT_FOR_BATON = """
    import os
    from torch.utils.file_baton import FileBaton
    FileBaton(os.environ["TORCH_EXTENSIONS_DIR"] + "/fused/lock").wait()
    """


def test_a_lock_that_a_killed_builder_left(start: Start, tmp_path: Path) -> None:
    lock = tmp_path / "extensions" / "fused" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 7200,) * 2)
    launch = start(WAIT_FOR_BATON, modules=BATON, env={"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")})
    cause = first(look(launch))
    assert (cause["id"], cause["confidence"]) == ("extension-lock-stale", "likely")
    assert f"rm {lock}" in cause["next"][-1]
    assert launch.poll() is None
    assert lock.exists()


def test_a_build_that_runs_is_no_stale_lock(start: Start, tmp_path: Path) -> None:
    lock = tmp_path / "extensions" / "fused" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    ninja = tmp_path / "ninja"
    sleep = shutil.which("sleep")
    assert sleep
    shutil.copy(sleep, ninja)
    code = f"import subprocess\nsubprocess.Popen([{str(ninja)!r}, '600'])\n" + textwrap.dedent(WAIT_FOR_BATON)
    launch = start(code, modules=BATON, env={"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")})
    assert "extension-lock-stale" not in ids(look(launch))


def test_a_question_that_nobody_answers(start: Start) -> None:
    prompt = """
        def resolve_trust_remote_code():
            input("Do you wish to run the custom code? [y/N] ")
        """
    code = "from transformers.dynamic_module_utils import resolve_trust_remote_code as ask\nask()"
    launch = start(code, modules={"transformers/dynamic_module_utils.py": prompt}, stdin=subprocess.PIPE)
    report = look(launch)
    assert first(report)["id"] == "trust-remote-code-prompt"


def test_an_output_that_nobody_reads(start: Start) -> None:
    launch = start("while True: print('x' * 1000)", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(1)
    cause = first(look(launch))
    assert (cause["id"], cause["confidence"]) == ("output-not-read", "certain")
    assert any(str(launch.pid) in step for step in cause["next"])


def test_a_stopped_process(start: Start) -> None:
    launch = start("import time; time.sleep(600)")
    time.sleep(0.5)
    launch.send_signal(signal.SIGSTOP)
    cause = first(look(launch))
    assert (cause["id"], cause["confidence"]) == ("rank-stopped", "certain")
    assert cause["next"][-1].endswith(f"kill -CONT {launch.pid}")
    assert "T" in Path(f"/proc/{launch.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_port_that_another_server_has(start: Start) -> None:
    port = free_port()
    # By "port + 0" its command line holds no word that looks like a server.
    code = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.5)
        said = f"HTTP server at {port} is not available in 30 seconds"
        launch = start(f"print({said!r})\nimport time; time.sleep(600)", "--port", str(port))
        # Not first of all where another test has left ranks of an earlier launch standing just now.
        cause = next(one for one in look(launch)["causes"] if one["id"] == "port-taken")
        assert f"sport = :{port}" in cause["next"][0]
    finally:
        holder.kill()
        holder.wait()


HUB = {
    "huggingface_hub/file_download.py": """
        import os, socket
        def hf_hub_download():
            line = socket.create_connection(("127.0.0.1", int(os.environ["MUTE"])))
            line.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
            line.recv(1)
        """
}


def test_a_hub_that_does_not_answer(start: Start) -> None:
    code = "from huggingface_hub.file_download import hf_hub_download as get\nget()"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        launch = start(code, modules=HUB, env={"MUTE": str(mute.getsockname()[1])})
        report = look(launch)
    assert "hub-unreachable" in ids(report), report["undecided"]


STORE = {
    "torch/distributed/rendezvous.py": """
        import socket, time
        def _tcp_rendezvous_handler(port):
            store = socket.create_server(("127.0.0.1", port))
            time.sleep(600)
        """,
    "torch/distributed/distributed_c10d.py": """
        from torch.distributed.rendezvous import _tcp_rendezvous_handler
        def init_process_group(port):
            _tcp_rendezvous_handler(port)
        """,
}


def test_a_node_that_nobody_started(start: Start) -> None:
    port = free_port()
    code = f"from torch.distributed.distributed_c10d import init_process_group as join\njoin({port})"
    words = ("--nnodes", "2", "--node-rank", "0", "--tp", "2", "--dist-init-addr", f"127.0.0.1:{port}")
    report = look(start(code, *words, modules=STORE))
    cause = next(one for one in report["causes"] if one["id"] == "peer-not-joined")
    assert cause["confidence"] == "likely"


@pytest.mark.root
def test_a_paused_container(start: Start, cgroup: Callable[[str], Path]) -> None:
    group = cgroup("freezer")
    launch = start("import time; time.sleep(600)")
    time.sleep(0.3)
    (group / "cgroup.procs").write_text(str(launch.pid))
    write_first(group, ("cgroup.freeze", "1"), ("freezer.state", "FROZEN"))
    cause = first(look(launch))
    assert (cause["id"], cause["confidence"]) == ("cgroup-frozen", "certain")


EATER = """
import time
time.sleep(4)
kept = []
while True:
    kept.append(bytearray(b"x" * (4 << 20)))
"""


@pytest.mark.root
def test_a_rank_that_the_kernel_killed_for_memory(start: Start, cgroup: Callable[[str], Path], tmp_path: Path) -> None:
    group = cgroup("memory")
    write_first(group, ("memory.max", str(96 << 20)), ("memory.limit_in_bytes", str(96 << 20)))
    with contextlib.suppress(StopIteration):
        write_first(group, ("memory.swap.max", "0"))
    (tmp_path / "eater.py").write_text(EATER)
    code = f"""
        import subprocess, sys, time
        child = subprocess.Popen(["sglang::scheduler_TP0", {str(tmp_path / "eater.py")!r}], executable=sys.executable)
        open({str(group / "cgroup.procs")!r}, "w").write(str(child.pid))
        time.sleep(600)
        """
    cause = first(look(start(code)))
    assert cause["id"] == "rank-oom-killed"
    assert any("OOM" in told or "Killed process" in told for told in cause["evidence"])


WARMUP = """
    import time, urllib.request
    def _wait_and_warmup():
        try:
            urllib.request.urlopen("http://127.0.0.1:1/model_info", timeout=600)
        except OSError:  # refused: the request went to the server itself
            time.sleep(600)
    def launch_server():
        _wait_and_warmup()
    """


@pytest.mark.parametrize(("exceptions", "found"), [("", True), ("localhost,127.0.0.1", False)])
def test_a_warm_up_through_a_proxy(start: Start, exceptions: str, found: bool) -> None:
    code = "from sglang.srt.entrypoints.http_server import launch_server\nlaunch_server()\nimport time\ntime.sleep(600)"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        env = {"http_proxy": f"http://127.0.0.1:{mute.getsockname()[1]}", "no_proxy": exceptions}
        modules = {"sglang/srt/entrypoints/http_server.py": WARMUP}
        report = look(start(code, modules=modules, env=env))
    assert ("warmup-through-proxy" in ids(report)) is found


def test_ranks_that_an_earlier_launcher_left(start: Start, tmp_path: Path) -> None:
    port = free_port()
    rank = tmp_path / "rank.py"
    rank.write_text(f"import socket, time\ns = socket.create_server(('127.0.0.1', {port}))\ntime.sleep(600)")
    # Its parent ends at once, so that it has none that is a launcher.
    spawn = (
        "import subprocess, sys; null = subprocess.DEVNULL; print(subprocess.Popen(['sglang::scheduler_TP0', sys.argv[1]],"
        " executable=sys.executable, stdin=null, stdout=null, stderr=null).pid)"
    )
    done = subprocess.run([sys.executable, "-c", spawn, str(rank)], capture_output=True, text=True, check=True)
    orphan = int(done.stdout)
    try:
        time.sleep(0.5)
        report = look(start("import time; time.sleep(600)", "--port", str(port)))
        assert "earlier-launch-left-over" in ids(report), (report["verdict"], report["ports"], report["undecided"])
        cause = next(one for one in report["causes"] if one["id"] == "earlier-launch-left-over")
        assert any("scheduler" in told for told in cause["evidence"])  # another test's may be told first
    finally:
        os.kill(orphan, signal.SIGKILL)
