"""What a watch costs: CPU of the ordinary command beside 8 x 200 threads, memory, and its share of a start's CPU.

`python tests/bench/bench_watch.py [SECONDS]`; memory after an hour is measured by giving it 3600.
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from bench_threads import SOURCE
from harness import Row

CPU_BAR, MEMORY_BAR = 2.0, 80  # percent of one core, MB
WARM_S = 15.0  # its own start, and the time in which everybody is newly still
SECONDS = 60.0


@contextlib.contextmanager
def sleepers(processes: int, threads: int) -> Iterator[int]:
    """A process with children of many threads each; gives its pid."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "threads"
        build = ["cc", "-O1", "-w", "-pthread", "-x", "c", "-", "-o", str(program)]
        subprocess.run(build, input=SOURCE, text=True, check=True)
        # Under the titles of ranks, so that each is needed. They wait for a line on standard input, which never comes.
        script = (
            f"mkfifo {folder}/in; exec 3<>{folder}/in; for n in $(seq 0 {processes - 1}); do"
            f' (exec -a "sglang::scheduler_TP$n" {program} {threads} <&3) & done; wait'
        )
        root = subprocess.Popen(
            ["bash", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            time.sleep(2)
            yield root.pid
        finally:
            for one in [*psutil.Process(root.pid).children(recursive=True), psutil.Process(root.pid)]:
                with contextlib.suppress(psutil.Error):
                    one.kill()
            root.wait()


def _cpu(family: list[psutil.Process]) -> float:
    """CPU seconds of hangdoc and its agent, ended children included."""
    spent = 0.0
    for one in family:
        times = one.cpu_times()
        spent += times.user + times.system + times.children_user + times.children_system
    return spent


def beside_threads(seconds: float, processes: int, threads: int) -> tuple[float, float, int]:
    """(percent of one core when warm, percent with its start, MB of hangdoc and agent together)."""
    with sleepers(processes, threads) as root:
        words = [sys.executable, "-m", "hangdoc", "watch", str(root), "--json"]
        watch = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            began = time.monotonic()
            time.sleep(WARM_S)
            own = psutil.Process(watch.pid)
            family = [own, *own.children()]
            before, at = _cpu(family), time.monotonic()
            time.sleep(seconds)
            after, now = _cpu(family), time.monotonic()
            memory = sum(one.memory_full_info().uss for one in family) >> 20
            return 100 * (after - before) / (now - at), 100 * after / (now - began), memory
        finally:
            watch.send_signal(signal.SIGKILL)
            watch.wait()


def beside_a_start() -> tuple[float, float]:
    """(CPU seconds of a watch of the miniature's good start, of its own start of Python alone)."""
    from hangdoc.demo.stage import Stage

    def spent(words: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with Stage(hang=False) as stage:
        whole = spent([sys.executable, "-m", "hangdoc", "watch", str(stage.pid), "--json"])
    return whole, spent([sys.executable, "-m", "hangdoc", "watch", "--help"])


def rows(seconds: float = SECONDS, processes: int = 8, threads: int = 200) -> Iterator[Row]:
    """CPU, memory, and what a short start costs."""
    what = f"watch beside {processes} x {threads} threads"
    if shutil.which("cc") is None:
        yield Row(what, f"<= {CPU_BAR} % of a core", "no C compiler here")
        return
    warm, whole, memory = beside_threads(seconds, processes, threads)
    yield Row(what, f"<= {CPU_BAR} % of a core", f"{warm:.2f} % warm, {whole:.2f} % with its start", warm <= CPU_BAR)
    yield Row(
        f"{what}: memory after {seconds + WARM_S:.0f} s", f"<= {MEMORY_BAR} MB", f"{memory} MB", memory <= MEMORY_BAR
    )
    total, start = beside_a_start()
    yield Row(
        "watch of a start of some 10 s: CPU", "", f"{total:.2f} s, of which {start:.2f} s is Python and its imports"
    )


if __name__ == "__main__":
    for row in rows(float(sys.argv[1]) if sys.argv[1:] else SECONDS):
        print(row.what, "|", row.measured, "|", row.bar)
