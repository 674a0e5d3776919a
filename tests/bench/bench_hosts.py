"""1,024 hosts of one launch, 30 of them dead: answers decoded, made one sample, folded, judged and rendered.

Each host has a launcher and a rank of 40 threads, or a launcher and eight ranks of eight threads, and is looked at three
times. Measured in a process of its own, for its memory counts; seconds are of one core.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_ranks import _stack
from harness import Row

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.codec import decode, encode
from hangdoc.hosts.channel import Lost
from hangdoc.hosts.fleet import Fleet
from hangdoc.model.ask import Ask
from hangdoc.model.sample import HostFacts, Process, Sample, Thread
from hangdoc.report import terminal

BAR_S, BAR_MB = 20.0, 500
HOSTS, DEAD, LOOKS = 1024, 30, 3
SHAPES = {"1 rank x 40 threads": (1, 40), "8 ranks x 8 threads": (8, 8)}
_ODD = 700  # the host with the rank that is in no barrier


def _rank(rank: int, pid: int, threads: int, *, odd: bool) -> Process:
    inner = (
        ("weight_loader", "sglang/srt/layers/linear.py")
        if odd
        else ("barrier", "torch/distributed/distributed_c10d.py")
    )
    table = {
        pid + n: Thread(
            pid + n, "S", "python", wchan="do_poll", syscall=7, args=(1, 1, 5000, 0, 0, 0), sp=n, pc=2, slices=5
        )
        for n in range(threads)
    }
    stacks = [_stack(pid, inner)] + [_stack(pid + n, ("wait", "torch/x.py")) for n in range(1, 5)]
    return Process(pid, 7, 5.0, "S", "sglang::schedul", cmdline=(f"sglang::scheduler_TP{rank}",), num_threads=threads,
                   rss=1 << 30, threads=table, stacks=stacks, fds={})  # fmt: skip


class Played:
    """A `Reach` that answers with the bytes that an agent would have sent."""

    def __init__(self, ranks: int, threads: int) -> None:
        self.hosts = tuple(f"gpu{number:04}" for number in range(HOSTS))
        self.look = 0
        self._shape = (ranks, threads)

    def _answer(self, number: int, probes: tuple[str, ...]) -> bytes:
        ranks, threads = self._shape
        words = f"python -m sglang.launch_server --tp {ranks * HOSTS} --nnodes {HOSTS} --node-rank {number}".split()
        words += ["--dist-init-addr", "gpu0000:5000"]
        processes = {7: Process(7, 1, 4.0, "S", "python", cmdline=tuple(words), num_threads=1, threads={}, fds={})}
        for rank in range(ranks):
            pid = 1000 + 100 * rank
            processes[pid] = _rank(number * ranks + rank, pid, threads, odd=number == _ODD and rank == 0)
        at = 8.0 * self.look
        facts = HostFacts(arch="x86_64")
        sample = Sample(f"gpu{number:04}", 1e9 + at, 100 + at, 100 + at, probes, processes, host_facts=facts)
        return encode(sample)

    def exchange(self, asks: Mapping[str, Ask]) -> dict[str, Sample | Lost]:
        found: dict[str, Sample | Lost] = {}
        self.spent = 0.0
        for number, host in enumerate(self.hosts):
            if host not in asks:
                continue
            if number % (HOSTS // DEAD) == 5:
                found[host] = Lost(host, "timed-out", "ssh: connect to host: Connection timed out")
                continue
            if not asks[host].probes:
                found[host] = Sample(host, 1e9, 100.0, 100.0)
                continue
            began = time.process_time()
            raw = self._answer(number, asks[host].probes)
            self.spent += time.process_time() - began  # making it up is the hosts' business
            found[host] = decode(raw, Sample)
        return found

    def retry(self) -> None:
        pass

    def close(self) -> None:
        pass


def measure(ranks: int, threads: int) -> dict[str, float | str]:
    """All looks and the report, in this process."""
    reach = Played(ranks, threads)
    fleet = Fleet(reach)
    diagnosis = Diagnosis(7)
    began, spent = time.process_time(), 0.0
    for look in range(LOOKS):
        reach.look = look
        ask = Ask(look, ("scan", "processes", "threads", "fds", "stacks"))
        sample = fleet.ask(ask)
        spent += reach.spent
        diagnosis.add(replace(sample, mono=100 + 8.0 * look, boot=100 + 8.0 * look, at=1e9 + 8 * look))
    report = diagnosis.report("0")
    terminal.render(report, width=100)
    took = time.process_time() - began - spent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    named = ",".join(f"{one.host} {one.rank}" for one in report.culprits)
    return {"seconds": took, "mb": memory, "culprits": named, "verdict": report.verdict, "summary": report.summary}


def rows() -> Iterator[Row]:
    """One row a shape."""
    for name, (ranks, threads) in SHAPES.items():
        words = [sys.executable, __file__, str(ranks), str(threads)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        assert found["culprits"] == f"gpu{_ODD:04} TP{_ODD * ranks}", found
        took, memory = float(found["seconds"]), float(found["mb"])
        yield Row(
            f"{HOSTS:,} hosts of {name}, {DEAD} dead: {LOOKS} looks decoded, merged, judged, shown (CPU)",
            f"<= {BAR_S:.0f} s, {BAR_MB} MB", f"{took:.1f} s, {memory:.0f} MB", took <= BAR_S and memory <= BAR_MB,
            "clush 1,200 nodes 48 s (published; runs a command only)",
        )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
