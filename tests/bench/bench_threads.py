"""What one tick costs over many threads: `python tests/bench/bench_threads.py [PROCESSES THREADS]`.

Starts processes whose threads wait for a mutex, for a time or for nothing, asks the ordinary local agent for threads,
lock owners and descriptors, and gives the median wall and CPU time of a fresh look and of one at unchanged threads.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import Row

from hangdoc.hosts.local import LocalChannel
from hangdoc.model.ask import Ask

SOURCE = r"""
#include <pthread.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *wait_for_lock(void *_) { pthread_mutex_lock(&lock); return 0; }
static void *wait_for_time(void *_) { for (;;) sleep(1000); return 0; }
static void *wait_for_nothing(void *_) { for (;;) poll(0, 0, -1); return 0; }
int main(int argc, char **argv) {
    void *(*kinds[3])(void *) = {wait_for_lock, wait_for_time, wait_for_nothing};
    pthread_t thread;
    for (int i = 0; i < 100; i++) if (dup(1) < 0) return 1;
    pthread_mutex_lock(&lock);
    for (int i = 1; i < atoi(argv[1]); i++) pthread_create(&thread, 0, kinds[i % 3], 0);
    puts("ready"); fflush(stdout);
    getchar();
    return 0;
}
"""
LOOKS = 7


BAR_S = 0.25


@dataclass(frozen=True)
class Look:
    """What one look saw and cost."""

    wall_s: float
    cpu_s: float
    threads: int
    owners: int


def _look(channel: LocalChannel, pids: tuple[int, ...], number: int) -> Look:
    sample = channel.ask(Ask(number, ("threads", "fds"), pids=pids, deadline_s=10.0))
    threads = [one for process in sample.processes.values() for one in (process.threads or {}).values()]
    owners = sum(1 for one in threads if one.futex is not None and one.futex.owner is not None)
    return Look(sample.cost.wall_s, sample.cost.cpu_s, len(threads), owners)


def measure(processes: int, threads: int) -> dict[str, list[Look]]:
    """Fresh looks, and looks at what did not change since."""
    looks: dict[str, list[Look]] = {"fresh": [], "unchanged": []}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "threads"
        build = ["cc", "-O1", "-w", "-pthread", "-x", "c", "-", "-o", str(program)]
        subprocess.run(build, input=SOURCE, text=True, check=True)
        run = [str(program), str(threads)]
        started = [subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
        try:
            for one in started:
                assert one.stdout is not None
                one.stdout.readline()
            pids = tuple(one.pid for one in started)
            for number in range(LOOKS):
                channel = LocalChannel()
                for found in looks.values():
                    found.append(_look(channel, pids, number))
                channel.close()
        finally:
            for one in started:
                one.kill()
                one.communicate()
    return looks


def rows(processes: int = 8, threads: int = 200) -> Iterator[Row]:
    """Two rows."""
    what = f"waits, owners, fds of {processes} x {threads} threads"
    if shutil.which("cc") is None:
        yield Row(what, f"<= {BAR_S} s", "no C compiler here")
        return
    for name, looks in measure(processes, threads).items():
        wall, cpu = statistics.median(one.wall_s for one in looks), statistics.median(one.cpu_s for one in looks)
        seen = f"{looks[0].threads} threads, {looks[0].owners} owners"
        measured = f"{wall:.3f} s, CPU {cpu:.3f} s ({seen})"
        yield Row(f"{what}, {name}", f"<= {BAR_S} s", measured, wall <= BAR_S, "no tool does it")


if __name__ == "__main__":
    for row in rows(*(int(one) for one in sys.argv[1:3])):
        print(row.what, row.measured)
