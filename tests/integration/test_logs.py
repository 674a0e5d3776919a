"""Logs behind real descriptors: files, tee, filters, pipes that nobody reads, FIFOs, terminals, holes."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from process_of import end, fd_of, process_of, python, state, until

from hangdoc.model.sample import Log, Process, Unseen
from hangdoc.probes import logfile, logs, readers, redact

WAIT = "import time; time.sleep(100)"


@pytest.fixture(autouse=True)
def _mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "mask", lambda text: text.replace("hf_secret", "***"))


def look(
    *pids: int,
    extra: tuple[str, ...] = (),
    offsets: dict[str, int] | None = None,
    head: int = 1 << 20,
    tail: int = 3 << 20,
) -> tuple[list[Log], list[Unseen]]:
    unseen: list[Unseen] = []
    members = {pid: process_of(pid) for pid in pids}
    return logs.read("/proc", members, extra, offsets or {}, unseen, head, tail), unseen


def text(log: Log) -> str:
    return "".join(chunk.text for chunk in log.chunks)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "a log"


@pytest.fixture
def writer(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Writes what it reads, line by line, into a log opened for appending."""
    code = "import sys\nfor line in sys.stdin:\n    sys.stdout.write(line); sys.stdout.flush()"
    with log.open("ab") as out:
        child = python(code, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
    yield child
    end(child)


def say(writer: subprocess.Popen[bytes], log: Path, line: bytes) -> None:
    assert writer.stdin
    before = log.stat().st_size if log.exists() else 0
    writer.stdin.write(line)
    writer.stdin.flush()
    until(lambda: log.exists() and log.stat().st_size == before + len(line))


def test_a_file_is_read_whole_then_from_where_it_was_left(writer: subprocess.Popen[bytes], log: Path) -> None:
    say(writer, log, b"one hf_secret\n")
    (first,), unseen = look(writer.pid)
    assert (first.path, first.via, first.pids, first.lines, first.size) == (str(log), "file", (writer.pid,), 1, 14)
    assert text(first) == "one ***\n"
    assert unseen == []
    say(writer, log, "zwei ü\n".encode())
    (second,), _ = look(writer.pid, offsets={str(log): 14})
    assert [(chunk.offset, chunk.text, chunk.size) for chunk in second.chunks] == [(14, "zwei ü\n", 8)]
    (third,), _ = look(writer.pid, offsets={str(log): 22})
    assert (third.chunks, third.lines) == ((), 2)


def test_a_secret_that_is_written_in_two_halves_stays_masked(writer: subprocess.Popen[bytes], log: Path) -> None:
    with log.open("ab") as out:
        out.write(b"first\ntoken hf_se")
        out.flush()
        (found,), _ = look(writer.pid)
        assert text(found) == "first\n"
        out.write(b"cret\n")
    (found,), _ = look(writer.pid, offsets={str(log): found.chunks[-1].offset + found.chunks[-1].size})
    assert text(found) == "token ***\n"


def test_a_line_that_is_not_gone_on_with_is_given(writer: subprocess.Popen[bytes], log: Path) -> None:
    log.write_bytes(b"Password? ")
    os.utime(log, (1, 1))
    (found,), _ = look(writer.pid)
    assert text(found) == "Password? "


def test_one_log_of_two_members_is_one(log: Path) -> None:
    with log.open("ab") as out:
        children = [python(WAIT, stdout=out, stderr=out) for _ in range(2)]
    try:
        found, _ = look(*(child.pid for child in children), extra=(str(log),))
        assert [one.pids for one in found] == [tuple(sorted(child.pid for child in children))]
    finally:
        end(*children)


def test_deleted(writer: subprocess.Popen[bytes], log: Path) -> None:
    say(writer, log, b"still here\n")
    log.unlink()
    (found,), _ = look(writer.pid)
    assert (found.via, text(found)) == ("deleted", "still here\n")


def test_truncated(writer: subprocess.Popen[bytes], log: Path) -> None:
    say(writer, log, b"a long first line\n")
    os.truncate(log, 0)
    say(writer, log, b"new\n")
    (found,), _ = look(writer.pid, offsets={str(log): 18})
    assert (found.note, text(found)) == ("truncated", "new\n")


def test_rotated(writer: subprocess.Popen[bytes], log: Path) -> None:
    say(writer, log, b"first\n")
    key = logfile.offset_key(str(log), log.stat().st_ino + 1)
    (found,), _ = look(writer.pid, offsets={key: 3})
    assert (found.note, text(found)) == ("rotated", "first\n")


def test_binary_and_a_hole(writer: subprocess.Popen[bytes], log: Path) -> None:
    log.write_bytes(bytes(1 << 16) + b"\xff\x1b[31m\n")
    (found,), _ = look(writer.pid)
    assert text(found) == "\\x00\\xff\x1b[31m\n"


def test_both_ends_of_a_large_log_cut_at_lines(writer: subprocess.Popen[bytes], log: Path) -> None:
    log.write_bytes(b"".join(b"line %06d\n" % number for number in range(10_000)))
    (found,), _ = look(writer.pid, head=1000, tail=2000)
    head, tail = found.chunks
    assert found.lines == 10_000
    assert (head.offset, head.text[:12], head.text[-12:], head.size) == (0, "line 000000\n", "line 000082\n", 996)
    assert tail.text.startswith("line ")
    assert tail.text.endswith("line 009999\n")
    assert tail.offset + tail.size == 120_000


def test_a_gigabyte_without_a_line_end_is_bounded(writer: subprocess.Popen[bytes], log: Path) -> None:
    with log.open("r+b") as out:
        out.write(b"x" * 100_000)
        out.truncate(1 << 30)
    began = time.monotonic()
    (found,), _ = look(writer.pid)
    assert time.monotonic() - began < 5  # 0.9 s on an idle machine
    assert found.size == 1 << 30
    assert sum(len(chunk.text) for chunk in found.chunks) < 200_000


def test_what_a_filter_only_reads_is_no_log(log: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("not a log\n")
    writer = python("print('x', flush=True);" + WAIT, stdout=subprocess.PIPE)
    with (tmp_path / "other").open() as other:
        tee = subprocess.Popen(
            ["tee", str(log)], stdin=writer.stdout, stdout=subprocess.DEVNULL, pass_fds=[other.fileno()]
        )
    assert writer.stdout
    writer.stdout.close()
    try:
        until(lambda: log.exists() and log.stat().st_size > 0)
        assert str(tmp_path / "other") not in [one.path for one in look(writer.pid)[0]]
    finally:
        end(writer, tee)


def test_tee(log: Path) -> None:
    writer = python("print('through tee', flush=True);" + WAIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    tee = subprocess.Popen(["tee", str(log)], stdin=writer.stdout, stdout=subprocess.DEVNULL)
    assert writer.stdout
    writer.stdout.close()
    try:
        until(lambda: log.exists() and log.stat().st_size > 0)
        (found,), unseen = look(writer.pid)
        assert (found.path, found.via, found.reader, text(found)) == (str(log), "tee", tee.pid, "through tee\n")
        assert unseen == []
        os.kill(tee.pid, 19)
        until(lambda: state(tee.pid) == "T")
        assert "is stopped" in look(writer.pid)[0][0].note
    finally:
        end(writer, tee)


def test_a_filter_in_front_of_tee(log: Path) -> None:
    writer = python("print('x', flush=True);" + WAIT, stdout=subprocess.PIPE)
    cat = subprocess.Popen(["cat"], stdin=writer.stdout, stdout=subprocess.PIPE)
    tee = subprocess.Popen(["tee", str(log)], stdin=cat.stdout, stdout=subprocess.DEVNULL)
    for child in (writer, cat):
        assert child.stdout
        child.stdout.close()
    try:
        until(lambda: log.exists() and log.stat().st_size > 0)
        found = {one.path: one for one in look(writer.pid)[0]}
        assert (found[str(log)].via, found[str(log)].reader) == ("tee", cat.pid)
    finally:
        end(writer, cat, tee)


def test_a_pipe_whose_reader_keeps_it_to_itself() -> None:
    writer = python(WAIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        (found,), _ = look(writer.pid)
        assert (found.via, found.reader) == ("pipe", os.getpid())
        assert found.path.startswith("pipe:[")
    finally:
        end(writer)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees every process")
def test_a_pipe_that_nobody_reads() -> None:
    writer = python(WAIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert writer.stdout
    writer.stdout.close()
    try:
        (found,), _ = look(writer.pid)
        assert (found.via, found.reader) == ("pipe", None)
        assert found.note in ("nobody reads this pipe", "no reader can be seen from here")
    finally:
        end(writer)


def test_a_fifo_is_never_opened(tmp_path: Path) -> None:
    """Opening it, even without blocking, would release the process that waits at its other end."""
    fifo, output = tmp_path / "fifo", tmp_path / "output"
    os.mkfifo(fifo)
    os.mkfifo(output)
    waiting = python(f"open({str(fifo)!r}, 'w')")
    both = python(f"import os, time; os.dup2(os.open({str(output)!r}, os.O_RDWR), 1); os.dup2(1, 2); time.sleep(100)")
    try:
        until(lambda: Path(f"/proc/{waiting.pid}/wchan").read_text() not in ("0", ""))
        until(lambda: str(Path(f"/proc/{both.pid}/fd/1").readlink()) == str(output))
        found, unseen = look(both.pid, extra=(str(fifo),))
        assert {one.path: one.via for one in found} == {str(fifo): "pipe", str(output): "pipe"}
        assert [one.reason for one in unseen] == ["unsupported"]
        time.sleep(0.2)
        assert waiting.poll() is None
    finally:
        end(waiting, both)


def test_terminal_null_and_socket() -> None:
    near, far = pty.openpty()
    left, right = socket.socketpair()
    with left, right:
        children = [
            python(WAIT, stdout=far, stderr=far),
            python(WAIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
            python(WAIT, stdout=right, stderr=right),
        ]
        try:
            assert [look(child.pid)[0][0].via for child in children] == ["terminal", "null", "socket"]
        finally:
            end(*children)
            os.close(near)
            os.close(far)


def test_closed_output() -> None:
    child = python("import os, time; os.close(1); os.close(2); time.sleep(100)", stdin=subprocess.DEVNULL)
    try:
        until(lambda: not os.path.lexists(f"/proc/{child.pid}/fd/2"))
        assert look(child.pid)[0][0].via == "none"
    finally:
        end(child)


def test_missing_is_said(tmp_path: Path) -> None:
    found, unseen = look(extra=(str(tmp_path / "none"),))
    assert [(one.via, one.chunks) for one in found] == [("option", ())]
    assert [one.reason for one in unseen] == ["failed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_denied_is_said(writer: subprocess.Popen[bytes], log: Path) -> None:
    log.chmod(0o600)
    members = {writer.pid: process_of(writer.pid)}
    mine, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        unseen: list[Unseen] = []
        found = logs.read("/proc", members, (str(log),), {}, unseen)
        said = sorted({one.reason for one in unseen} | {one.via for one in found})
        os.write(its, ",".join(said).encode())
        os._exit(0)
    os.close(its)
    os.waitpid(child, 0)
    assert os.read(mine, 100) == b"denied,file,option"
    os.close(mine)


def test_container_log_behind_a_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree like that of procfs: the runtime reads the pipe, the cgroup names the container."""
    ident = "cd" * 32
    json_log = tmp_path / f"var/lib/docker/containers/{ident}/{ident}-json.log"
    json_log.parent.mkdir(parents=True)
    json_log.write_text('{"log":"Loading\\n","stream":"stdout","time":"x"}\n{"log":"half')
    proc = tmp_path / "proc"
    for pid, comm, fd in ((10, "python", 1), (11, "containerd-shim", 20)):
        (proc / str(pid) / "fd").mkdir(parents=True)
        (proc / str(pid) / "comm").write_text(comm + "\n")
        (proc / str(pid) / "cgroup").write_text(f"0::/docker/{ident}\n")
        (proc / str(pid) / "fd" / str(fd)).symlink_to("pipe:[77]")
    monkeypatch.setattr(readers, "HOST_ROOT", str(tmp_path))
    member = Process(10, 1, 0.0, "S", "python", fds={1: fd_of(1, "pipe:[77]")})
    (found,) = logs.read(str(proc), {10: member}, (), {}, [])
    assert (found.path, found.via, found.reader, text(found)) == (str(json_log), "container", 11, "Loading\n")


def test_block_buffering_is_noted(writer: subprocess.Popen[bytes], log: Path) -> None:
    member = replace(process_of(writer.pid), env={})
    (found,) = logs.read("/proc", {writer.pid: member}, (), {}, [])
    assert found.note == "block-buffered: PYTHONUNBUFFERED is not set"
    for told in (
        replace(member, env={"PYTHONUNBUFFERED": "1"}),
        replace(member, env=None),
        replace(member, cmdline=(sys.executable, "-u", "x.py")),
    ):
        assert logs.read("/proc", {writer.pid: told}, (), {}, [])[0].note == ""
