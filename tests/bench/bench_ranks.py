"""1,024 ranks of 40 threads each, from a synthetic case: merged, judged and rendered."""

from __future__ import annotations

import time
from collections.abc import Iterator

from harness import Row

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.sample import Frame, HostFacts, Process, Sample, Stack, Thread
from hangdoc.report import terminal

BAR_S = 2.0
RANKS, THREADS, SAMPLES = 1024, 40, 3
_SITE = "/opt/venv/lib/python3.11/site-packages"
_INIT = [
    ("ModelRunner.load_model", "sglang/srt/model_executor/model_runner.py"),
    ("Scheduler.__init__", "sglang/srt/managers/scheduler.py"),
    ("run_scheduler_process", "sglang/srt/managers/scheduler.py"),
]


def _stack(tid: int, inner: tuple[str, str]) -> Stack:
    return Stack(
        tid,
        "MainThread",
        False,
        False,
        tuple(Frame(name, f"{_SITE}/{file}", file, 7) for name, file in [inner, *_INIT]),
    )


def _process(rank: int) -> Process:
    pid = 100_000 + 100 * rank
    inner = (
        ("barrier", "torch/distributed/distributed_c10d.py")
        if rank != 700
        else ("weight_loader", "sglang/srt/layers/linear.py")
    )
    threads = {
        pid + n: Thread(
            pid + n, "S", "python", wchan="do_poll", syscall=7, args=(1, 1, 5000, 0, 0, 0), sp=n, pc=2, slices=5
        )
        for n in range(THREADS)
    }
    stacks = [_stack(pid, inner)] + [_stack(pid + n, ("wait", "torch/x.py")) for n in range(1, 5)]
    return Process(pid, 7, 5.0, "S", "sglang::schedul", cmdline=(f"sglang::scheduler_TP{rank}",), num_threads=THREADS,
                   rss=1 << 30, threads=threads, stacks=stacks, fds={})  # fmt: skip


def _samples() -> list[Sample]:
    argv = ("/opt/venv/bin/python", "-m", "sglang.launch_server", "--tp", str(RANKS))
    root = Process(7, 1, 4.0, "S", "python", cmdline=argv, num_threads=1, threads={}, fds={})
    processes = {7: root, **{one.pid: one for one in map(_process, range(RANKS))}}
    probes = ("processes", "threads", "fds", "stacks")
    facts = HostFacts(arch="x86_64")
    return [
        Sample("box", 1e9 + 8 * n, 100.0 + 8 * n, 100.0 + 8 * n, probes, processes, host_facts=facts)
        for n in range(SAMPLES)
    ]


def rows() -> Iterator[Row]:
    """One row."""
    samples = _samples()
    diagnosis = Diagnosis(7)
    for sample in samples[:-1]:
        diagnosis.add(sample)
    began = time.perf_counter()
    diagnosis.add(samples[-1])
    report = diagnosis.report("0")
    terminal.render(report, width=100)
    took = time.perf_counter() - began
    assert [one.rank for one in report.culprits] == ["TP700"], report.summary
    yield Row(f"{RANKS:,} ranks x {THREADS} threads: one sample folded, merged, judged, shown", f"<= {BAR_S:.0f} s",
              f"{took:.2f} s", took <= BAR_S, "STAT < 3 s predicted at 131k tasks (published)")  # fmt: skip
