"""Known causes that several processes of a launch tell together, each beside the same launch without the decisive thing."""

from __future__ import annotations

import os
import pty
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from causing import FOREVER, Start, expect, free_port, hit_and_near_miss, ids, look, ranks, write_first
from targets import eventually

pytestmark = pytest.mark.slow

COLLECTIVE = {
    "torch/distributed/distributed_c10d.py": """
        import socket
        def all_reduce():
            mine, peer = socket.socketpair()
            mine.recv(1)
        """,
    "zmq/sugar/socket.py": """
        import socket
        def recv_pyobj():
            mine, peer = socket.socketpair()
            mine.recv(1)
        """,
    "sglang/srt/managers/loop.py": """
        from zmq.sugar.socket import recv_pyobj
        def recv_requests():
            recv_pyobj()
        def event_loop_normal():
            recv_requests()
        """,
}
ALL_REDUCE = "from torch.distributed.distributed_c10d import all_reduce\nall_reduce()"
SERVE_REQUESTS = "from sglang.srt.managers.loop import event_loop_normal\nevent_loop_normal()"


@hit_and_near_miss
def test_a_collective_that_the_other_ranks_skip(start: Start, found: bool) -> None:
    """The near miss: both ranks are in it."""
    code, modules = ranks(ALL_REDUCE, SERVE_REQUESTS if found else ALL_REDUCE)
    report = look(start(code, "--tp", "2", modules={**modules, **COLLECTIVE}))
    expect(report, "collective-that-others-skip", found)


REPACKING = {
    "sglang/srt/layers/quantization/marlin.py": """
        import hashlib, time, zlib
        def shuffled(weight): return weight[::-1]
        def permuted(weight):
            kept = bytearray(weight)
            for place in range(0, len(kept), 7): kept[place] ^= 1
            return bytes(kept)
        def checked(weight): return sum(zlib.crc32(weight[at:at + 64]) for at in range(0, len(weight), 64))
        def process_weights_after_loading(works):
            weight = bytes(1 << 20)
            while works:
                for step in (shuffled, permuted, checked): step(weight)
            time.sleep(600)
        """
}


@hit_and_near_miss
def test_weights_that_are_repacked(start: Start, found: bool) -> None:
    """The near miss sleeps in the same function."""
    work = f"from sglang.srt.layers.quantization.marlin import process_weights_after_loading as repack\nrepack({found})"
    code, modules = ranks(work)
    launch = start(code, modules={**modules, **REPACKING})
    time.sleep(10)  # a silence that is long enough to wonder about
    report = look(launch)
    if (
        found and not report["causes"]
    ):  # what moves is let go after two looks, on a busy machine before its stack was read
        report = look(launch)
    expect(report, "weights-are-repacked", found)
    assert (report["verdict"] in ("progressing", "slow")) is found


OPENING = {
    "sglang/srt/entrypoints/http_server.py": """
        import mmap, socket, subprocess, sys, time
        source = open(__file__, "rb")  # versions are looked for beside mapped files
        mapped = mmap.mmap(source.fileno(), 0, prot=mmap.PROT_READ)
        def _wait_and_warmup(port):
            words = ["sglang::scheduler_TP0", "-m", "sglang.srt.managers.scheduler", "0"]
            child = subprocess.Popen(words, executable=sys.executable)
            with socket.create_server(("127.0.0.1", port)):
                time.sleep(600)
        """
}


@hit_and_near_miss
def test_a_port_that_is_open_while_a_rank_is_dead(start: Start, found: bool) -> None:
    """SGLang before 0.5.10 did not look after its ranks: the launcher lives on beside a zombie."""
    rank = "import os, time\ntime.sleep(3)\nos.kill(os.getpid(), 9)" if found else FOREVER
    _, modules = ranks(rank)
    port = free_port()
    code = f"from sglang.srt.entrypoints.http_server import _wait_and_warmup as serve\nserve({port})"
    metadata = "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.9\n"
    launch = start(
        code, "--port", str(port), modules={**modules, **OPENING, "sglang-0.5.9.dist-info/METADATA": metadata}
    )
    expect(look(launch), "port-open-rank-dead", found)


BUILD = """
import subprocess, threading, traceback
def build():
    try:
        subprocess.run("PYTHON eat.py || exit $?; exit 0", shell=True, check=True)
    except subprocess.CalledProcessError:
        traceback.print_exc()
    threading.Event().wait()
"""
EATS = "kept = []\nwhile True: kept.append(b'x' * (4 << 20))"


@pytest.mark.root
@hit_and_near_miss
def test_a_compiler_that_the_kernel_killed(
    start: Start, cgroup: Callable[[str], Path], tmp_path: Path, found: bool
) -> None:
    """The shell says 137 as ninja does. The near miss: the compiler fails by itself."""
    group = cgroup("memory")
    write_first(group, ("memory.max", str(96 << 20)), ("memory.limit_in_bytes", str(96 << 20)))
    (tmp_path / "eat.py").write_text(EATS if found else "raise SystemExit(1)")
    build = BUILD.replace("PYTHON", sys.executable)
    rank = f"""
        import os, time
        with open({str(group / "cgroup.procs")!r}, "w") as procs: procs.write(str(os.getpid()))
        print(time.strftime("[%Y-%m-%d %H:%M:%S]"), "Memory pool end. avail mem=18.10 GB")
        time.sleep(3)
        from flashinfer.jit.core import build
        build()
        """
    code, modules = ranks(rank)
    launch = start(code, modules={**modules, "flashinfer/jit/core.py": build})
    log = tmp_path / "server.log"
    eventually(lambda: "CalledProcessError" in log.read_text(), seconds=40)
    assert ("compiler-killed" in ids(look(launch))) is found  # a hint: nobody saw that compiler while it lived


PROMPT = {
    "transformers/dynamic_module_utils.py": """
        def resolve_trust_remote_code():
            input("The repository contains custom code. Do you wish to run the custom code? [y/N] ")
        """
}


@hit_and_near_miss
def test_a_question_on_a_terminal(start: Start, found: bool) -> None:
    ours, theirs = pty.openpty()
    code = "from transformers.dynamic_module_utils import resolve_trust_remote_code as ask\nask()\nimport time; time.sleep(600)"
    try:
        launch = start(code, modules=PROMPT, stdin=theirs)
        if not found:
            time.sleep(1)
            os.write(ours, b"y\n")
        expect(look(launch), "trust-remote-code-prompt", found)
    finally:
        os.close(ours)
        os.close(theirs)
