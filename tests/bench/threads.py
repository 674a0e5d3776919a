"""What one tick costs over many threads: `python tests/bench/threads.py [PROCESSES THREADS]`.

Starts processes whose threads wait for a mutex, for a time or for nothing, asks the ordinary local agent for threads,
lock owners and descriptors, and prints the median wall and CPU time of a fresh look and of one at unchanged threads.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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


def _look(channel: LocalChannel, pids: tuple[int, ...], number: int) -> tuple[float, float, int, int]:
    sample = channel.ask(Ask(number, ("threads", "fds"), pids=pids, deadline_s=10.0))
    threads = [one for process in sample.processes.values() for one in (process.threads or {}).values()]
    owners = sum(1 for one in threads if one.futex is not None and one.futex.owner is not None)
    return sample.cost.wall_s, sample.cost.cpu_s, len(threads), owners


def main(processes: int, threads: int) -> None:
    """Print one line for the fresh look and one for the others."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("no C compiler here")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "threads"
        subprocess.run(
            [compiler, "-O1", "-w", "-pthread", "-x", "c", "-", "-o", program], input=SOURCE, text=True, check=True
        )
        started = [
            subprocess.Popen([program, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(processes)
        ]
        try:
            for one in started:
                assert one.stdout is not None
                one.stdout.readline()
            pids = tuple(one.pid for one in started)
            fresh, again = [], []
            for number in range(LOOKS):
                channel = LocalChannel()
                fresh.append(_look(channel, pids, number))
                again.append(_look(channel, pids, number))
                channel.close()
        finally:
            for one in started:
                one.kill()
                one.communicate()
    for name, looks in (("fresh look", fresh), ("unchanged", again)):
        wall, cpu = (statistics.median(one[place] for one in looks) for place in (0, 1))
        print(f"{name}: {looks[0][2]} threads, {looks[0][3]} owners, wall {wall:.3f} s, CPU {cpu:.3f} s")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:3] or ("8", "200")))
