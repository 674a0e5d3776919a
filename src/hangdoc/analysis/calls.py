"""Blocked system calls in words: which mechanism a call is, and on what object, from its number, arguments and fds."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.syscalls import NAMES
from ..model.sample import Fd, Process, Socket, Thread
from ..model.words import Mechanism

_SLEEPS = {"nanosleep", "clock_nanosleep"}
_WAITS = {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"}
_READS = {"read", "readv", "pread64"}
_WRITES = {"write", "writev"}
_RECEIVES = {"recvfrom", "recvmsg", "recvmmsg"}
# Kernel functions in which a task waits for a disk or for a file system on the network.
DISK_WAITS = ("folio_wait", "wait_on_page", "request_wait_answer", "rpc_wait", "nfs", "io_schedule", "filemap", "fuse", "jbd2",
              "xfs", "ext4", "ceph", "lustre", "cl_", "blk_")  # fmt: skip


@dataclass(frozen=True)
class Blocked:
    """What a blocked call is."""

    mechanism: Mechanism
    detail: str
    object: str | None = None
    specific: bool = True  # it says by itself what is wrong; otherwise Python frames say more


def name_of(number: int | None, arch: str) -> str | None:
    """Manual page name of a system call; None for running, unseen or unknown."""
    return NAMES.get(arch, {}).get(number) if number is not None else None


def on_disk(thread: Thread) -> bool:
    """Whether its wait channel is one of a disk or a file system."""
    return any(name in (thread.wchan or "") for name in DISK_WAITS)


def blocked_in(thread: Thread, process: Process, sockets: dict[int, Socket], arch: str) -> Blocked | None:
    """What the call that a thread is blocked in waits for; None when it runs or the call could not be read."""
    name = name_of(thread.syscall, arch)
    if name is None or thread.state == "R":
        return _by_wchan(thread)
    fd = (process.fds or {}).get(thread.args[0]) if thread.args else None
    on = f"fd {thread.args[0]} ({fd.target})" if fd is not None else (f"fd {thread.args[0]}" if thread.args else "")
    if name in _WRITES:
        return _write(fd, on)
    if name in _READS:
        return _read(fd, on, sockets)
    if name in _RECEIVES:
        return Blocked("socket-recv", f"blocked in {name} on {_socket(fd, on, sockets)}", _socket(fd, on, sockets))
    if name == "connect":
        return Blocked("socket-connect", f"blocked in connect on {_socket(fd, on, sockets)}", _socket(fd, on, sockets))
    if name in ("accept", "accept4"):
        return Blocked("socket-accept", f"blocked in accept on {_socket(fd, on, sockets)}", _socket(fd, on, sockets))
    if name in ("sendto", "sendmsg"):
        return Blocked(
            "socket-recv", f"blocked in {name}: the other end of {_socket(fd, on, sockets)} does not read", on
        )
    if name == "flock" or (name == "fcntl" and len(thread.args) > 1 and thread.args[1] in (7, 38)):
        return Blocked("file-lock", f"waits for a lock on {fd.target if fd else on}", fd.target if fd else on)
    if name in ("openat", "open") and "wait_for_partner" in (thread.wchan or "wait_for_partner"):
        return Blocked(
            "fifo-open",
            f"opens the FIFO {thread.path or '(path not readable)'} that nobody opened at its other end",
            thread.path,
        )
    if name in ("wait4", "waitid"):
        return Blocked("child-wait", "waits for a child to end", None, specific=False)
    if name == "ioctl" and fd is not None and fd.target.startswith("/dev/"):
        return Blocked("driver-call", f"inside the driver of {fd.target}", fd.target)
    if name in ("vfork", "clone", "clone3", "fork"):
        return Blocked("child-wait", f"blocked in {name}: its new child has neither exec'd nor ended", None)
    if name in _SLEEPS:
        return Blocked("sleep", "sleeps in the code named", None, specific=False)
    if name in _WAITS:
        return Blocked("unknown", f"waits in {name}", None, specific=False)
    if name == "futex":
        return Blocked("unknown", "waits on a futex whose owner cannot be told", None, specific=False)
    return Blocked("unknown", f"blocked in {name}", None, specific=False)


def _by_wchan(thread: Thread) -> Blocked | None:
    """What the wait channel alone tells, where the system call is not to be had (READ access only)."""
    wchan = thread.wchan or ""
    table: tuple[tuple[str, Mechanism, str], ...] = (
        ("pipe_write", "pipe-write", "blocked in a write to a pipe"),
        ("pipe_read", "pipe-read", "blocked in a read from a pipe"),
        ("wait_for_partner", "fifo-open", "opens a FIFO that nobody opened at its other end"),
        ("locks_lock_inode_wait", "file-lock", "waits for a file lock"),
        ("fcntl_setlk", "file-lock", "waits for a file lock"),
        ("n_tty_read", "terminal-read", "waits for input from a terminal"),
        ("inet_csk_accept", "socket-accept", "waits for a connection"),
        ("inet_stream_connect", "socket-connect", "waits for a connection to be accepted"),
        ("inet_wait_for_connect", "socket-connect", "waits for a connection to be accepted"),
        ("wait_for_more", "socket-recv", "waits for data from a socket"),
        ("sk_wait_data", "socket-recv", "waits for data from a socket"),
        ("do_wait", "child-wait", "waits for a child to end"),
        ("nanosleep", "sleep", "sleeps"),
    )
    for part, mechanism, detail in table:
        if part in wchan:
            return Blocked(
                mechanism, f"{detail} (wait channel {wchan})", None, specific=mechanism not in ("child-wait", "sleep")
            )
    return None


def _write(fd: Fd | None, on: str) -> Blocked:
    if fd is not None and fd.kind in ("pipe", "fifo"):
        return Blocked(
            "pipe-write", f"blocked in a write to {on}, a pipe that is full because nobody reads it", fd.target
        )
    return Blocked("unknown", f"blocked in a write to {on}", on, specific=False)


def _read(fd: Fd | None, on: str, sockets: dict[int, Socket]) -> Blocked:
    if fd is None:
        return Blocked("unknown", f"blocked in a read from {on}", None, specific=False)
    if fd.kind in ("pipe", "fifo"):
        return Blocked("pipe-read", f"reads from {on} and nothing comes", fd.target, specific=False)
    if fd.kind == "terminal":
        return Blocked("terminal-read", f"waits for input from {fd.target}", fd.target)
    if fd.kind == "socket":
        return Blocked(
            "socket-recv", f"reads from {_socket(fd, on, sockets)} and nothing comes", _socket(fd, on, sockets)
        )
    if fd.kind == "file":
        return Blocked("disk-read", f"reads from {fd.target}", fd.target, specific=False)
    return Blocked("unknown", f"reads from {on}", fd.target, specific=False)


def _socket(fd: Fd | None, on: str, sockets: dict[int, Socket]) -> str:
    row = sockets.get(fd.inode) if fd is not None and fd.inode is not None else None
    if row is None:
        return on
    return f"{row.family} {row.local} -> {row.remote}" if row.remote else f"{row.family} {row.local or on}"
