"""Blocked system calls in words: which mechanism a call is, and on what object, from its number, arguments and fds."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..model.sample import Fd, Process, Socket, Thread
from ..model.syscalls import NAMES
from ..model.words import Mechanism

# Kernel functions in which a task waits for a disk or for a file system on the network.
DISK_WAITS = (
    "folio_wait", "wait_on_page", "request_wait_answer", "rpc_wait", "nfs", "io_schedule", "filemap", "fuse", "jbd2", "xfs",
    "ext4", "ceph", "lustre", "cl_", "blk_",
)  # fmt: skip
# Commands of fcntl(2) that wait for a lock: F_SETLKW, F_OFD_SETLKW (linux/fcntl.h).
_LOCK_COMMANDS = (7, 38)


class Blocked(msgspec.Struct, frozen=True):
    """What a blocked call is."""

    mechanism: Mechanism
    detail: str
    object: str | None = None
    specific: bool = True  # it says by itself what is wrong; otherwise Python frames say more


class Call(msgspec.Struct, frozen=True):
    """A blocked call with what its first argument is, when that is a descriptor."""

    name: str
    thread: Thread
    fd: Fd | None
    on: str  # the descriptor in words
    ends: str  # the connection in words, where it is a socket


def name_of(number: int | None, arch: str) -> str | None:
    """Manual page name of a system call; None for running, unseen or unknown."""
    return NAMES.get(arch, {}).get(number) if number is not None else None


def on_disk(thread: Thread) -> bool:
    """Whether its wait channel is one of a disk or a file system."""
    return any(name in (thread.wchan or "") for name in DISK_WAITS)


def blocked_in(thread: Thread, process: Process, sockets: dict[int, Socket], arch: str) -> Blocked | None:
    """What the call that a thread is blocked in waits for; None when it runs or nothing of it could be read."""
    name = name_of(thread.syscall, arch)
    if name is None or thread.state == "R":
        return _by_wchan(thread.wchan or "")
    fd = (process.fds or {}).get(thread.args[0]) if thread.args else None
    on = f"fd {thread.args[0]}" if thread.args else "a descriptor"
    on = f"{on} ({fd.target})" if fd is not None else on
    call = Call(name, thread, fd, on, _ends(fd, on, sockets))
    return _CALLS.get(name, _other)(call)


def _ends(fd: Fd | None, on: str, sockets: dict[int, Socket]) -> str:
    row = sockets.get(fd.inode) if fd is not None and fd.inode is not None else None
    if row is None:
        return on
    return f"{row.family} {row.local} -> {row.remote}" if row.remote else f"{row.family} {row.local or on}"


def _other(call: Call) -> Blocked:
    return Blocked("unknown", f"blocked in {call.name}", None, specific=False)


def _write(call: Call) -> Blocked:
    if call.fd is not None and call.fd.kind in ("pipe", "fifo"):
        held = f" ({call.fd.unread:,} bytes lie in it)" if call.fd.unread is not None else ""
        words = f"blocked in a write to {call.on}, a pipe that is full because nobody reads it{held}"
        return Blocked("pipe-write", words, call.fd.target)
    return Blocked("unknown", f"blocked in a write to {call.on}", call.on, specific=False)


# kind of descriptor -> mechanism of a read from it, whether that says enough by itself
_READ: dict[str, tuple[Mechanism, bool]] = {
    "pipe": ("pipe-read", False),
    "fifo": ("pipe-read", False),
    "terminal": ("terminal-read", True),
    "socket": ("socket-recv", True),
    "file": ("disk-read", False),
}


def _read(call: Call) -> Blocked:
    mechanism, specific = _READ.get(call.fd.kind if call.fd else "", ("unknown", False))
    return Blocked(mechanism, f"reads from {call.ends} and nothing comes", call.ends, specific)


def _receive(call: Call) -> Blocked:
    return Blocked("socket-recv", f"blocked in {call.name} on {call.ends}", call.ends)


def _send(call: Call) -> Blocked:
    return Blocked("socket-recv", f"blocked in {call.name}: the other end of {call.ends} does not read", call.ends)


def _connect(call: Call) -> Blocked:
    return Blocked("socket-connect", f"blocked in connect on {call.ends}", call.ends)


def _accept(call: Call) -> Blocked:
    return Blocked("socket-accept", f"blocked in accept on {call.ends}", call.ends)


def _flock(call: Call) -> Blocked:
    path = call.fd.target if call.fd else call.on
    return Blocked("file-lock", f"waits for a lock on {path}", path)


def _fcntl(call: Call) -> Blocked:
    return _flock(call) if call.thread.args[1:2] and call.thread.args[1] in _LOCK_COMMANDS else _other(call)


def _open(call: Call) -> Blocked:
    path = call.thread.path
    if call.thread.wchan is None or "wait_for_partner" in call.thread.wchan:
        words = f"opens the FIFO {path or '(path not readable)'} that nobody opened at its other end"
        return Blocked("fifo-open", words, path)
    return Blocked("disk-read", f"opens {path or 'a file'}", path, specific=False)


def _ioctl(call: Call) -> Blocked:
    if call.fd is None or not call.fd.target.startswith("/dev/"):
        return _other(call)
    return Blocked("driver-call", f"inside the driver of {call.fd.target}", call.fd.target)


def _wait(call: Call) -> Blocked:
    return Blocked("child-wait", f"waits in {call.name} for a child to end", None, specific=False)


def _fork(call: Call) -> Blocked:
    return Blocked("child-wait", f"blocked in {call.name}: its new child has neither run exec nor ended")


def _sleep(call: Call) -> Blocked:
    return Blocked("sleep", f"sleeps in {call.name}", None, specific=False)


def _poll(call: Call) -> Blocked:
    return Blocked("unknown", f"waits in {call.name}", None, specific=False)


_CALLS: dict[str, Callable[[Call], Blocked]] = {
    **dict.fromkeys(("write", "writev", "pwrite64"), _write),
    **dict.fromkeys(("read", "readv", "pread64"), _read),
    **dict.fromkeys(("recvfrom", "recvmsg", "recvmmsg"), _receive),
    **dict.fromkeys(("sendto", "sendmsg"), _send),
    **dict.fromkeys(("accept", "accept4"), _accept),
    **dict.fromkeys(("open", "openat", "openat2"), _open),
    **dict.fromkeys(("wait4", "waitid"), _wait),
    **dict.fromkeys(("fork", "vfork", "clone", "clone3"), _fork),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), _sleep),
    **dict.fromkeys(("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"), _poll),
    "connect": _connect,
    "flock": _flock,
    "fcntl": _fcntl,
    "ioctl": _ioctl,
}

# part of a wait channel -> mechanism, words, whether it says enough by itself. Names change with kernels; these were
# seen on 6.18 or read in the source of 5.15.
_CHANNELS: tuple[tuple[str, Mechanism, str, bool], ...] = (
    ("pipe_write", "pipe-write", "blocked in a write to a pipe", True),
    ("pipe_read", "pipe-read", "blocked in a read from a pipe", False),
    ("wait_for_partner", "fifo-open", "opens a FIFO that nobody opened at its other end", True),
    ("locks_lock_inode_wait", "file-lock", "waits for a file lock", True),
    ("fcntl_setlk", "file-lock", "waits for a file lock", True),
    ("n_tty_read", "terminal-read", "waits for input from a terminal", True),
    ("inet_csk_accept", "socket-accept", "waits for a connection", True),
    ("inet_stream_connect", "socket-connect", "waits for its connection to be accepted", True),
    ("inet_wait_for_connect", "socket-connect", "waits for its connection to be accepted", True),
    ("wait_for_more", "socket-recv", "waits for data from a socket", True),
    ("sk_wait_data", "socket-recv", "waits for data from a socket", True),
    ("do_wait", "child-wait", "waits for a child to end", False),
    ("nanosleep", "sleep", "sleeps", False),
)


def _by_wchan(wchan: str) -> Blocked | None:
    """What the wait channel alone tells, where the system call is not to be had (READ access only)."""
    for part, mechanism, words, specific in _CHANNELS:
        if part in wchan:
            return Blocked(mechanism, f"{words} (wait channel {wchan})", None, specific)
    return None
