"""Pipes, file locks and shared rings between real processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path

import pytest
from targets import eventually, running

from hangdoc.agent.tick import Ticker
from hangdoc.codec import convert
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Fd, FileLock, Process, Ring, Sample
from hangdoc.probes import fds, rings


def sample(*pids: int) -> Sample:
    return convert(Ticker().answer(Ask(1, ("processes", "threads", "fds"), pids=pids)), Sample)


def said(pid: int, number: int) -> Fd | None:
    found = sample(pid).processes[pid].fds
    one = found.get(number) if found else None
    return one if one is not None and one.unread is not None else None


def full(pid: int, number: int) -> Fd | None:
    one = said(pid, number)
    return one if one is not None and one.unread == one.capacity else None


FULL = "import os; os.write(2, b'ready\\n')\nwhile True: os.write({fd}, b'x' * 4096)"


def test_a_writer_on_a_full_pipe_has_as_much_unread_as_fits() -> None:
    writer = subprocess.Popen([sys.executable, "-c", FULL.format(fd=1)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        one = eventually(lambda: full(writer.pid, 1))
        assert one.kind == "pipe"
        assert one.capacity
    finally:
        writer.kill()
        writer.communicate()


def test_a_fifo_is_told_by_the_writer_that_is_blocked_in_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR); os.dup2(fd, 9)\n" + FULL.format(fd=9)
    writer = subprocess.Popen([sys.executable, "-c", code, fifo], stderr=subprocess.PIPE)
    try:
        one = eventually(lambda: full(writer.pid, 9))
        assert (one.kind, one.target) == ("fifo", str(fifo))
    finally:
        writer.kill()
        writer.communicate()


def test_a_pipe_that_is_read_has_nothing_unread() -> None:
    with running(["sh", "-c", "echo ready; exec cat"]) as (pid, _):
        one = eventually(lambda: said(pid, 0))
        assert one.unread == 0
        assert said(pid, 1) is not None  # behind its output


LOCKER = """
import fcntl, os, sys, time
file = open(sys.argv[1], "a")
if sys.argv[2] == "posix":
    fcntl.lockf(file, fcntl.LOCK_EX, 10, 5)
else:
    fcntl.flock(file, fcntl.LOCK_EX)
if sys.argv[2] == "orphan" and os.fork():
    os._exit(0)  # the lock lives on in the child, under the number of a process that is gone
os.write(1, b"child=%d\\nready\\n" % os.getpid())
time.sleep(1000)
"""


@contextlib.contextmanager
def waiting_for(path: Path, kind: str) -> Iterator[int]:
    """A process that waits for the lock."""
    waiter = subprocess.Popen([sys.executable, "-c", LOCKER, path, kind], stdout=subprocess.PIPE)
    try:
        yield waiter.pid
    finally:
        waiter.kill()
        waiter.communicate()


def lock_of(path: Path, waiters: int, *pids: int) -> FileLock:
    """The lock on a file once so many wait for it."""

    def look() -> FileLock | None:
        found = [one for one in sample(*pids).file_locks if one.path == str(path)]
        return found[0] if len(found) == 1 and len(found[0].waiters) == waiters else None

    return eventually(look)


@pytest.mark.parametrize(("kind", "name"), [("flock", "FLOCK"), ("posix", "POSIX")])
def test_a_file_lock_has_its_holder_and_both_waiters(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "lock"
    with (
        running([sys.executable, "-c", LOCKER, path, kind]) as (holder, _),
        waiting_for(path, kind) as first,
        waiting_for(path, kind) as second,
    ):
        one = lock_of(path, 2, holder, first, second)
        assert (one.kind, one.mode, one.holders, one.owner) == (name, "WRITE", (holder,), holder)
        assert one.waiters == tuple(sorted((first, second)))
        assert one.range == ("5 14" if kind == "posix" else "0 EOF")


def test_the_holder_of_a_lock_whose_taker_has_exited_is_the_child_that_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with running([sys.executable, "-c", LOCKER, path, "orphan"]) as (taker, tids), waiting_for(path, "flock") as waiter:
        one = lock_of(path, 1, waiter)  # the holder is no member: it is looked for
        assert (one.holders, one.owner, one.waiters) == ((tids["child"],), taker, (waiter,))
        inside = lock_of(path, 1, waiter, tids["child"])
        assert inside.holders == (tids["child"],)


def test_a_lock_that_is_not_waited_for_has_no_waiters_and_other_files_are_left_out(tmp_path: Path) -> None:
    with (tmp_path / "other").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with running([sys.executable, "-c", LOCKER, tmp_path / "lock", "flock"]) as (holder, _):
            found = sample(holder)
            assert [(one.path, one.holders, one.waiters) for one in found.file_locks] == [
                (str(tmp_path / "lock"), (holder,), ())
            ]
            assert len(found.locks) == 1


CHUNKS, CHUNK = 10, 1 << 20


@contextlib.contextmanager
def ring(readers: int, extra: int = 0) -> Iterator[shared_memory.SharedMemory]:
    """Memory of the ring's form, zeroed."""
    memory = shared_memory.SharedMemory(create=True, size=(CHUNK + 1 + readers) * CHUNKS + extra)
    try:
        yield memory
    finally:
        memory.close()
        memory.unlink()


def write(memory: shared_memory.SharedMemory, readers: int, chunk: int, read_by: set[int]) -> None:
    """A chunk that was written, and read by these."""
    assert memory.buf is not None
    place = CHUNK * CHUNKS + chunk * (1 + readers)
    memory.buf[place : place + 1 + readers] = bytes([1, *(int(one in read_by) for one in range(readers))])


def mine() -> dict[int, Process]:
    return {os.getpid(): Process(os.getpid(), 0, 0.0, "R", "", fds=fds.read("/proc", os.getpid(), []))}


def test_the_reader_that_does_not_read_has_all_chunks_unread() -> None:
    with ring(3) as memory:
        for chunk in range(CHUNKS):
            write(memory, 3, chunk, {0, 2})
        write(memory, 3, 4, {2})
        found = [one for one in rings.read("/proc", mine(), []) if one.name == memory.name.strip("/")]
        assert found == [Ring(memory.name.strip("/"), "queue-10", CHUNKS, CHUNK, (1, CHUNKS, 0), (os.getpid(),))]


def test_a_chunk_that_is_being_written_is_not_unread() -> None:
    with ring(2):
        assert [one.unread for one in rings.read("/proc", mine(), [])] == [(0, 0)]


@pytest.mark.parametrize("fault", ["size", "flag"])
def test_memory_of_another_form_is_no_ring(fault: str) -> None:
    with ring(2, extra=5 if fault == "size" else 0) as memory:
        if fault == "flag":
            assert memory.buf is not None
            memory.buf[CHUNK * CHUNKS + 7] = 2
        assert [one for one in rings.read("/proc", mine(), []) if one.name == memory.name.strip("/")] == []


VLLM = sorted(Path.home().glob(".cache/hanglab/vllm/bin/python"))
REAL = """
import os, sys
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue
queue = MessageQueue(2, 2)
reader = MessageQueue.create_from_handle(queue.export_handle(), 1)
for number in range(3):
    with queue.acquire_write() as buffer:
        buffer[0] = 0
with reader.acquire_read() as buffer:
    pass
os.write(1, b"ready\\n")
sys.stdin.read()  # then it ends as it should, and unlinks its memory
"""


@pytest.mark.slow
@pytest.mark.skipif(not VLLM, reason="no vLLM here")
def test_a_real_queue_of_vllm_is_recognised() -> None:
    env = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    pipe = subprocess.PIPE
    child = subprocess.Popen([VLLM[0], "-c", REAL], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env)
    try:
        assert child.stdout is not None
        while (line := child.stdout.readline()) != b"ready\n":
            assert line, "it ended"
        found = sample(child.pid).rings
        assert [(one.layout, one.chunks, one.chunk_bytes, one.unread) for one in found] == [
            ("queue-10", 10, 24 << 20, (3, 2))
        ]
        child.communicate(timeout=30)
        assert not Path("/dev/shm", found[0].name).exists()
    finally:
        child.kill()
        child.communicate()
