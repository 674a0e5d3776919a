"""Known causes that are waits of one process: locks, children, pipes, signals. Each is held against the same process without the
decisive thing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from causing import FOREVER, Start, expect, hit_and_near_miss, ids, look, named, ranks

pytestmark = pytest.mark.slow


@hit_and_near_miss
def test_a_file_lock_that_another_program_holds(
    start: Start, tmp_path: Path, holder: Callable[[Path], int], found: bool
) -> None:
    lock = tmp_path / "some.lock"
    pid = holder(lock) if found else None
    code = f"""
        import fcntl, time
        f = open({str(lock)!r}, "w")
        fcntl.flock(f, fcntl.LOCK_EX)
        time.sleep(600)
        """
    report = look(start(code))
    expect(report, "file-lock-held-outside", found)
    if found:
        assert report["causes"][0]["id"] == "file-lock-held-outside"
        assert str(pid) in str(report["causes"][0])


@hit_and_near_miss
def test_a_named_pipe_that_nobody_opens(start: Start, tmp_path: Path, found: bool) -> None:
    pipe = tmp_path / "control"
    os.mkfifo(pipe)
    other = None if found else os.open(pipe, os.O_RDWR)  # opened at both ends: the reader waits for data only
    try:
        report = look(start(f"open({str(pipe)!r}).read()"))
    finally:
        if other is not None:
            os.close(other)
    expect(report, "named-pipe-not-opened", found)
    if found:
        assert report["causes"][0]["id"] == "named-pipe-not-opened"
        assert str(pipe) in str(report["causes"][0])


@hit_and_near_miss
def test_a_child_that_does_not_end(start: Start, tmp_path: Path, found: bool) -> None:
    # A compiler runs long by right: that is no child that does not end.
    program = named("sleep" if found else "bash as cc1plus", tmp_path)
    words = [program, "600"] if found else [program, "-c", "while :; do :; done"]
    report = look(start(f"import subprocess\nsubprocess.run({words!r})"))
    expect(report, "child-process-does-not-end", found)
    if not found:
        assert report["verdict"] in ("progressing", "slow"), report["summary"]


VFORK = """
#include <unistd.h>
void hold(void) { if (vfork() == 0) { for (;;) pause(); } }
"""


@hit_and_near_miss
def test_a_child_of_vfork_that_never_starts_its_program(start: Start, tmp_path: Path, found: bool) -> None:
    (tmp_path / "hold.c").write_text(VFORK if found else VFORK.replace("vfork", "fork"))
    library = tmp_path / "hold.so"
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, tmp_path / "hold.c"], check=True, timeout=60)
    launch = start(f"import ctypes, time\nctypes.CDLL({str(library)!r}).hold()\ntime.sleep(600)")
    expect(look(launch), "vfork-child-holds-parent", found)


TRACER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[2])
if sys.argv[1] == "attach":  # 16: PTRACE_ATTACH stops it
    done = libc.ptrace(16, pid, None, None)
    os.waitpid(pid, 0x40000000)  # __WALL
else:  # 0x4206: PTRACE_SEIZE does not
    done = libc.ptrace(0x4206, pid, None, None)
print(done, flush=True)
time.sleep(600)
"""


@hit_and_near_miss
def test_a_debugger_that_holds_a_process(start: Start, found: bool) -> None:
    launch = start(FOREVER)
    time.sleep(0.5)
    words = [sys.executable, "-c", TRACER, "attach" if found else "seize", str(launch.pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout
        if tracer.stdout.readline() != b"0\n":
            tracer.kill()
            pytest.skip("nothing may be traced here")
        report = look(launch)
        tracer.kill()
    expect(report, "held-by-debugger", found)
    assert not found or "rank-asleep" not in ids(report)


@hit_and_near_miss
def test_the_gil_in_native_code(start: Start, found: bool) -> None:
    # PyDLL keeps the GIL while it calls, CDLL gives it back.
    code = f"""
        import ctypes, threading, time
        def other():
            while True: time.sleep(0.01)
        threading.Thread(target=other, daemon=True).start()
        ctypes.{"PyDLL" if found else "CDLL"}(None).sleep(600)
        """
    expect(look(start(code)), "gil-held-in-native-code", found)


@hit_and_near_miss
def test_a_mutex_that_its_holder_locks_again(start: Start, found: bool) -> None:
    # A condition of one more look: who only holds a mutex waits for nothing.
    code = f"""
        import ctypes, time
        libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        libc.pthread_mutex_lock(mutex)
        {"libc.pthread_mutex_lock(mutex)" if found else "time.sleep(600)"}
        """
    report = look(start(code))
    expect(report, "mutex-held-by-itself", found)
    if found:
        assert report["causes"][0]["confidence"] == "certain"


CROSSED = """
    import threading, time
    a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
    def other():
        with b:
            both.wait()
            with a:
                time.sleep(600)
    threading.Thread(target=other, daemon=True).start()
    with a:
        both.wait()
        with b:
            time.sleep(600)
    """


IN_ORDER = """
    import threading, time
    a, b = threading.Lock(), threading.Lock()
    def other():
        with a, b:
            time.sleep(600)
    threading.Thread(target=other, daemon=True).start()
    time.sleep(600)
    """


@hit_and_near_miss
def test_two_threads_that_hold_each_others_locks(start: Start, found: bool) -> None:
    expect(look(start(CROSSED if found else IN_ORDER)), "lock-not-given-back", found)


@hit_and_near_miss
def test_a_rank_that_sleeps(start: Start, found: bool) -> None:
    moving = """
        import time
        for shard in range(1, 1000):
            print(f"Loading safetensors checkpoint shards: {shard // 10:3d}% Completed | {shard}/1000 [00:01<00:03,  1.20s/it]")
            time.sleep(0.5)
        """
    code, modules = ranks(FOREVER if found else moving)
    expect(look(start(code, modules=modules)), "rank-asleep", found)


@hit_and_near_miss
def test_a_rank_that_polls_for_what_never_comes(start: Start, tmp_path: Path, found: bool) -> None:
    flag = tmp_path / "flag"
    if not found:
        flag.touch()
    poll = f"""
        import os, time
        while not os.path.exists({str(flag)!r}):
            time.sleep(0.05)
        time.sleep(600)
        """
    code, modules = ranks(poll)
    expect(look(start(code, modules=modules)), "polls-without-end", found)


MUTE = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
line = server.accept()[0]
while True:
    time.sleep(0.5)
    if sys.argv[1] == "talks": line.sendall(b"x")
"""


@hit_and_near_miss
def test_a_service_of_this_machine_that_never_answers(start: Start, found: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MUTE, "mute" if found else "talks"], stdout=subprocess.PIPE
    ) as service:
        assert service.stdout
        port = int(service.stdout.readline())
        client = f"""
            import socket
            line = socket.create_connection(("127.0.0.1", {port}))
            while line.recv(1): pass
            """
        report = look(start(client))
        service.kill()
    expect(report, "local-service-never-answers", found)


@hit_and_near_miss
def test_a_plugin_of_somebody_that_waits(start: Start, found: bool) -> None:
    waits = "import os\ndef setup():\n    reader, writer = os.pipe()\n    os.read(reader, 1)\n"
    name = "companyplugin" if found else "sglang"
    code = f"from {name}.setting_up import setup\nsetup()"
    report = look(start(code, modules={f"{name}/setting_up.py": waits}))
    expect(report, "code-outside-of-the-engine", found)


FAILS = """
    import sys, threading, time, traceback
    def work():
        try:
            raise RuntimeError("shape mismatch in layer 3")
        except RuntimeError:
            traceback.print_exc()
    threading.Thread(target=work).start()
    threading.Event().wait()
    """


@hit_and_near_miss
def test_a_rank_that_failed_and_told_nobody(start: Start, found: bool) -> None:
    code, modules = ranks(FAILS if found else FAILS.replace("traceback.print_exc()", "pass"))
    expect(look(start(code, modules=modules)), "rank-failed-and-nobody-was-told", found)


COLLECTIVES = {
    "torch/distributed/distributed_c10d.py": """
        import socket
        def init_process_group(rank, path):
            link = socket.socket(socket.AF_UNIX)
            if rank:
                import time
                while link.connect_ex(path): time.sleep(0.1)
                return link
            link.bind(path)
            link.listen()
            return link.accept()[0]
        def all_reduce(group):
            group.sendall(b"r")
            group.recv(1)
        def broadcast(group):
            while True: group.recv(1, socket.MSG_PEEK); group.recv(2, socket.MSG_WAITALL)
        """
}


def test_ranks_in_different_collectives(start: Start, tmp_path: Path) -> None:
    both = (
        "from torch.distributed.distributed_c10d import all_reduce, broadcast, init_process_group\n"
        f"group = init_process_group(%d, {str(tmp_path / 'group')!r})\n"
    )
    code, modules = ranks(both % 0 + "all_reduce(group)", both % 1 + "broadcast(group)")
    report = look(start(code, "--tp", "2", modules={**modules, **COLLECTIVES}))
    expect(report, "ranks-in-different-collectives", True)
