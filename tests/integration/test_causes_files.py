"""Known causes that lie in files, file systems, limits and compilers, each beside the same launch without the decisive thing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from causing import Start, expect, hit_and_near_miss, ids, look, named, private_mounts, ranks, write_first
from fuse import silent_mount

pytestmark = pytest.mark.slow

NOW = 'import time\nprint(time.strftime("[%Y-%m-%d %H:%M:%S]"), '
LOADING = NOW + '"Load weight begin. avail mem=18.17 GB")\n'
WARMING = NOW + '"Memory pool end. avail mem=18.10 GB")\n'
# What a rank does whose failure nobody sees: the traceback is in the log, and a thread that should go on does not.
FAIL = """
import threading, traceback
def attempt(work):
    try:
        work()
    except Exception:
        traceback.print_exc()
    threading.Event().wait()
"""
FAILING = {"sglang/srt/attempting.py": FAIL}


def failing(code: str) -> str:
    """Code of a rank that does `work` of the code given, prints how it failed and waits."""
    return f"from sglang.srt.attempting import attempt\n{code}\nattempt(work)"


SOFT_LOCK = {
    "filelock/_api.py": """
        import os, time
        class BaseFileLock:
            def acquire(self, path):
                while os.path.exists(path): time.sleep(0.05)
        """,
    "huggingface_hub/file_download.py": """
        from filelock._api import BaseFileLock
        def hf_hub_download(lock):
            BaseFileLock().acquire(lock)
            import time; time.sleep(600)
        """,
}


@hit_and_near_miss
def test_a_soft_lock_whose_owner_has_ended(start: Start, tmp_path: Path, found: bool) -> None:
    lock = tmp_path / "hf" / "hub" / ".locks" / "models--some--model" / "abc.lock"
    lock.parent.mkdir(parents=True)
    (tmp_path / "hf" / "hub" / "models--some--model" / "blobs").mkdir(parents=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lock.write_text(f"{ended.pid if found else os.getpid()}\n{os.uname().nodename}\n")
    if found:
        os.utime(lock, (time.time() - 7200,) * 2)
    code = f"from huggingface_hub.file_download import hf_hub_download as get\nget({str(lock)!r})"
    words = ("--model-path", "some/model")
    report = look(start(code, *words, modules=SOFT_LOCK, env={"HF_HOME": str(tmp_path / "hf")}))
    expect(report, "hub-soft-lock-stale", found)


@hit_and_near_miss
def test_a_build_whose_lock_another_launch_holds(
    start: Start, tmp_path: Path, holder: Callable[[Path], int], found: bool
) -> None:
    lock = tmp_path / "flashinfer" / "build.lock"
    lock.parent.mkdir()
    holder(lock)
    build = f"""
        import fcntl, subprocess
        def build():
            {"pass" if found else f"subprocess.Popen([{named('sleep as ninja', tmp_path)!r}, '600'])"}
            fcntl.flock(open({str(lock)!r}, "a"), fcntl.LOCK_EX)
        """
    code, modules = ranks(WARMING + "from flashinfer.jit.core import build\nbuild()")
    report = look(start(code, modules={**modules, "flashinfer/jit/core.py": build}))
    expect(report, "flashinfer-jit-lock", found)
    assert "file-lock-held-outside" in ids(report)


DOWNLOADS = {
    "huggingface_hub/file_download.py": """
        import time
        def xet_get(file):
            with open(file, "ab") as out:
                while True:
                    time.sleep(0.3)
                    GROW
        def hf_hub_download(file):
            xet_get(file)
        """
}


def _download(start: Start, tmp_path: Path, *, grows: bool) -> subprocess.Popen[bytes]:
    blobs = tmp_path / "hf" / "hub" / "models--some--model" / "blobs"
    blobs.mkdir(parents=True)
    partial = blobs / ("a" * 64 + ".incomplete")
    partial.write_bytes(bytes(1 << 20))
    os.utime(partial, (time.time() - 600,) * 2)
    source = DOWNLOADS["huggingface_hub/file_download.py"]
    source = source.replace("GROW", "out.write(bytes(1 << 20)); out.flush()" if grows else "pass")
    code, modules = ranks(
        LOADING + f"from huggingface_hub.file_download import hf_hub_download as get\nget({str(partial)!r})"
    )
    launch = start(
        code,
        *("--model-path", "some/model"),
        modules={**modules, "huggingface_hub/file_download.py": source},
        env={"HF_HOME": str(tmp_path / "hf")},
    )
    time.sleep(1)
    os.utime(tmp_path / "server.log", (time.time() - 100,) * 2)
    return launch


@hit_and_near_miss
def test_a_download_that_stands_still(start: Start, tmp_path: Path, found: bool) -> None:
    expect(look(_download(start, tmp_path, grows=not found)), "xet-download-stalled", found)


@hit_and_near_miss
def test_a_download_that_says_nothing(start: Start, tmp_path: Path, found: bool) -> None:
    report = look(_download(start, tmp_path, grows=found))
    expect(report, "weights-download-silent", found)
    assert report["verdict"] in (("progressing", "slow") if found else ("suspect", "hung"))


@pytest.mark.root
@hit_and_near_miss
def test_a_cache_folder_that_is_read_only(start: Start, tmp_path: Path, found: bool) -> None:
    cache = tmp_path / "triton-cache"
    cache.mkdir()
    before = private_mounts(f"mount -t tmpfs -o {'ro' if found else 'rw'} none {cache}")
    work = f"import os\ndef work():\n    os.mkdir({str(cache / 'kernel')!r})"
    code, modules = ranks(failing(work))
    env = {"TRITON_CACHE_DIR": str(cache)}
    expect(
        look(start(code, modules={**modules, **FAILING}, env=env, before=before)), "cache-folder-not-writable", found
    )


@pytest.mark.root
@hit_and_near_miss
def test_a_cache_folder_from_which_nothing_may_be_run(start: Start, tmp_path: Path, found: bool) -> None:
    import _ctypes

    cache = tmp_path / "triton-cache"
    cache.mkdir()
    before = private_mounts(
        f"mount -t tmpfs -o {'noexec' if found else 'exec'} none {cache}", f"cp {_ctypes.__file__} {cache}/kernel.so"
    )
    launcher = f"import ctypes\ndef work():\n    ctypes.CDLL({str(cache / 'kernel.so')!r})\n"
    build = FAIL + launcher + "def compile_module():\n    attempt(work)\n"
    code, modules = ranks(LOADING + "from triton.runtime.build import compile_module\ncompile_module()")
    launch = start(code, modules={**modules, "triton/runtime/build.py": build}, before=before)
    expect(look(launch), "cache-forbids-execution", found)


FILL = """
import os
def work():
    with open("/dev/shm/psm_tensors", "wb") as out:
        for _ in range(150): out.write(bytes(1 << 20))
"""


@pytest.mark.root
@hit_and_near_miss
def test_shared_memory_that_is_full(start: Start, found: bool) -> None:
    before = private_mounts(f"mount -t tmpfs -o size={'140m' if found else '400m'} none /dev/shm")
    code, modules = ranks(failing(FILL))
    expect(look(start(code, modules={**modules, **FAILING}, before=before)), "shared-memory-full", found)


NCCL_SHM = """
import os
def work():
    name = "/dev/shm/nccl-AbCdEf"
    try:
        with open(name, "wb") as out: os.posix_fallocate(out.fileno(), 0, 100 << 20)
    except OSError as error:
        print(f"NCCL WARN Error while creating shared memory segment {name} (size {100 << 20}), error: {error.strerror}")
        raise
"""


@pytest.mark.root
@hit_and_near_miss
def test_shared_memory_that_is_too_small(start: Start, found: bool) -> None:
    before = private_mounts(f"mount -t tmpfs -o size={'64m' if found else '300m'} none /dev/shm")
    code, modules = ranks(failing(NCCL_SHM), "import time; time.sleep(600)")
    expect(look(start(code, "--tp", "2", modules={**modules, **FAILING}, before=before)), "shm-too-small", found)


@pytest.mark.root
@hit_and_near_miss
def test_a_file_system_that_does_not_answer(start: Start, tmp_path: Path, found: bool) -> None:
    point = tmp_path / "models"
    point.mkdir()
    with silent_mount(point):
        asked = point / "config.json" if found else tmp_path / "config.json"
        code = f"import os, time\nos.path.exists({str(asked)!r})\ntime.sleep(600)"
        expect(look(start(code, "--model-path", str(point))), "file-system-silent", found)


@hit_and_near_miss
def test_too_many_open_files(start: Start, found: bool) -> None:
    work = f"""
import os, resource
def work():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = [open(os.devnull) for _ in range({100 if found else 10})]
"""
    code, modules = ranks(failing(work))
    expect(look(start(code, modules={**modules, **FAILING})), "too-many-open-files", found)


@pytest.mark.root
@hit_and_near_miss
def test_no_further_thread(start: Start, cgroup: Callable[[str], Path], found: bool) -> None:
    group = cgroup("pids")
    (group / "pids.max").write_text("20" if found else "500")
    work = f"""
import os, threading
def work():
    with open({str(group / "cgroup.procs")!r}, "w") as procs: procs.write(str(os.getpid()))
    for _ in range(40): threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
    code, modules = ranks(failing(work))
    expect(look(start(code, modules={**modules, **FAILING})), "thread-limit-reached", found)


@pytest.mark.root
@hit_and_near_miss
def test_a_quota_of_cpu_time(start: Start, cgroup: Callable[[str], Path], found: bool) -> None:
    group = cgroup("cpu")
    if found:
        write_first(group, ("cpu.max", "20000 100000"), ("cpu.cfs_quota_us", "20000"))
    rank = f"""
        import os, threading
        with open({str(group / "cgroup.procs")!r}, "w") as procs: procs.write(str(os.getpid()))
        for _ in range(20): threading.Thread(target=threading.Event().wait, daemon=True).start()
        while True: pass
        """
    code, modules = ranks(rank)
    report = look(start(code, modules=modules))
    expect(report, "cpu-quota-throttles", found)
    assert "lock-not-given-back" not in ids(report)


@hit_and_near_miss
def test_no_c_compiler(start: Start, tmp_path: Path, found: bool) -> None:
    if not found:
        named("sleep as gcc", tmp_path)
    build = """
import shutil
def work():
    if shutil.which("gcc") is None:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")
def compile_module():
    attempt(work)
"""
    code, modules = ranks(LOADING + "from triton.runtime.build import compile_module\ncompile_module()")
    env = {"PATH": str(tmp_path)}
    launch = start(code, modules={**modules, "triton/runtime/build.py": FAIL + build}, env=env)
    expect(look(launch), "c-compiler-missing", found)


@hit_and_near_miss
def test_no_cuda_compiler(start: Start, tmp_path: Path, found: bool) -> None:
    if not found:
        named("true as nvcc", tmp_path)
    build = (
        "import subprocess\ndef work():\n    subprocess.run(['nvcc', '-V'])\ndef build_and_load():\n    attempt(work)\n"
    )
    code, modules = ranks(WARMING + "from flashinfer.jit.core import build_and_load\nbuild_and_load()")
    env = {"PATH": str(tmp_path)}
    launch = start(code, modules={**modules, "flashinfer/jit/core.py": FAIL + build}, env=env)
    expect(look(launch), "cuda-compiler-missing", found)


CHATTER = """
import threading, time
def chatter():
    for second in range(600):
        print(time.strftime("[%Y-%m-%d %H:%M:%S]"), "Still waiting for other ranks", flush=True)
        time.sleep(1)
threading.Thread(target=chatter, daemon=True).start()
"""


@hit_and_near_miss
@pytest.mark.parametrize(
    ("cause", "file", "program"),
    [
        ("flashinfer-jit-build", "flashinfer/jit/core.py", "cc1plus"),
        ("triton-compiles-kernels", "triton/compiler/compiler.py", "ptxas"),
    ],
)
def test_a_compiler_that_takes_long(
    start: Start, tmp_path: Path, cause: str, file: str, program: str, found: bool
) -> None:
    """It is no hang: the compiler spends CPU time, and that is what everybody waits for."""
    compiler = named(f"bash as {program if found else 'program'}", tmp_path)
    build = f"import subprocess\ndef build():\n    subprocess.run([{compiler!r}, '-c', 'while :; do :; done'])\n"
    module = file[:-3].replace("/", ".")
    code, modules = ranks(WARMING + CHATTER + f"from {module} import build\nbuild()")
    report = look(start(code, modules={**modules, file: build}))
    expect(report, cause, found)
    assert (report["verdict"] in ("progressing", "slow")) is found
    assert not found or not {"flashinfer-jit-lock", "child-process-does-not-end"} & set(ids(report))
