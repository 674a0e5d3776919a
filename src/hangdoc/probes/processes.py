"""Processes: who is there, whose child, since when, in which state, under which title."""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, List, Optional, Tuple

from ..model.frozen import replace
from ..model.sample import Io, Process, Unseen
from . import cgroups
from .procfs import Folder, Stat, parse_stat, parse_status, say, text
from .redact import mask, mask_arguments

SIGSTOP_BIT = 1 << 18  # SIGSTOP is 19; bit n-1 of SigPnd
_CMDLINE_LIMIT = 64 << 10
_WORD_LIMIT = 4096
_OURS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))  # what we lack ourselves says nothing about a process


def pids(root: str = "/proc") -> List[int]:
    """Numbers of all processes."""
    return sorted(int(name) for name in os.listdir(root) if name.isdigit())


def newest(root: str = "/proc") -> Optional[int]:
    """The number that the kernel gave last, to a process or a thread: while it stays the same there are no new ones.

    None where it is not told (`ns_last_pid` of Documentation/admin-guide/sysctl/kernel.rst needs CONFIG_CHECKPOINT_RESTORE), or
    is that of another pid namespace than the one that `root` shows.
    """
    try:
        if os.readlink(f"{root}/self") != str(os.getpid()):
            return None
        with open(f"{root}/sys/kernel/ns_last_pid", "rb", buffering=0) as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


def stat_of(root: str, pid: int) -> Optional[Stat]:
    """`stat` of a process, which never blocks; None when it is gone. Its times are those of the main thread alone.

    The whole process's own file adds up all of its threads, which costs 0.3 ms for 200 of them when they are cold.
    Raises OSError where we have no descriptors or no memory left to read it.
    """
    try:
        with Folder(root, pid) as folder:
            return parse_stat(folder.read(f"task/{pid}/stat"))
    except ValueError:
        return None
    except OSError as error:
        if error.errno in _OURS:
            raise
        return None


def raw_stat(root: str, pid: int) -> Optional[bytes]:
    """`stat` of a process as it is, which never blocks; None when it is gone."""
    try:
        with Folder(root, pid) as folder:
            return folder.read("stat")
    except OSError:
        return None


def list_all(root: str = "/proc") -> Dict[int, Process]:
    """Every process but the kernel's own, by pid, from `stat` and `status` alone, which never block (docs/safety.md)."""
    found = {}
    for pid in pids(root):
        try:
            with Folder(root, pid) as folder:
                stat = parse_stat(folder.read("stat"))
                if not _is_kernel_thread(stat):
                    found[pid] = _basic(folder, stat)
        except (OSError, ValueError):  # ended meanwhile
            continue
    return found


def _is_kernel_thread(stat: Stat) -> bool:
    """Whether it is a thread of the kernel, as seen from the host's own pid namespace."""
    return stat.ppid == 2 or (stat.pid == 2 and stat.comm == "kthreadd")


def _basic(folder: Folder, stat: Stat) -> Process:
    status = parse_status(folder.read("status"))
    numbers = _numbers(status.get("NSpid", ""))
    return Process(
        pid=stat.pid,
        ppid=stat.ppid,
        start=stat.start,
        state=stat.state,
        comm=stat.comm,
        nspid=tuple(numbers),
        uid=next(iter(_numbers(status.get("Uid", ""))), None),
        num_threads=stat.num_threads,
        utime=stat.utime,
        stime=stat.stime,
        child_time=stat.child_time,
        minflt=stat.minflt,
        majflt=stat.majflt,
        rss=_kilobytes(status, "VmRSS"),
        rss_file=_kilobytes(status, "RssFile"),
        rss_shmem=_kilobytes(status, "RssShmem"),
        tracer=int(status.get("TracerPid", "0") or 0) or None,
        pending_stop=pending_stop(status),
        switches=_switches(status),
    )


def _switches(status: Dict[str, str]) -> Optional[int]:
    """`status` of a process counts those of its main thread alone (proc(5))."""
    counts = [status.get(name, "") for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")]
    return sum(map(int, counts)) if all(one.isdigit() for one in counts) else None


def _numbers(value: str) -> List[int]:
    return [int(one) for one in value.split() if one.isdigit()]


def _kilobytes(status: Dict[str, str], name: str) -> Optional[int]:
    numbers = _numbers(status.get(name, ""))
    return numbers[0] * 1024 if numbers else None


def pending_stop(status: Dict[str, str]) -> bool:
    """Whether SIGSTOP is pending on the thread or its process: it will stop when it wakes."""
    return any(int(status.get(name, "0") or "0", 16) & SIGSTOP_BIT for name in ("SigPnd", "ShdPnd"))


def fill(root: str, process: Process, unseen: List[Unseen]) -> Optional[Process]:
    """The process with all of the probe `processes`; may block. None when it is gone or another one has its pid."""
    known = state(root, process.pid, process.start, unseen)
    return None if known is None else words(root, known, unseen)


NAMESPACES = ("pid_ns", "net_ns", "mnt_ns")
SPACES = (*NAMESPACES, "cgroup")


def state(
    root: str, pid: int, start: Optional[float], unseen: List[Unseen], spaces: Optional[Dict[str, Any]] = None
) -> Optional[Process]:
    """The part of `fill` that never blocks: stat, status, io, cgroup, namespaces, exit code.

    `spaces` are the namespaces and the control group as read before: they hardly ever change, and reading them takes
    most of the time.
    """
    try:
        with Folder(root, pid) as folder:
            stat = parse_stat(folder.read("stat"))
            if start is not None and stat.start != start:
                unseen.append(Unseen("processes", "gone", f"another process has the number {pid} now", pid))
                return None
            process = _basic(folder, stat)
            return replace(process, **_counters(folder, process, stat, unseen, spaces))
    except (OSError, ValueError):
        unseen.append(Unseen("processes", "gone", f"process {pid} has ended", pid))
        return None


def _counters(
    folder: Folder, process: Process, stat: Stat, unseen: List[Unseen], spaces: Optional[Dict[str, Any]]
) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    pid, zombie = process.pid, process.state in "ZX"
    try:
        found["io"] = parse_io(folder.read("io"))
    except (OSError, KeyError, ValueError) as error:
        if isinstance(error, OSError):
            say(unseen, "processes", error, "io", pid)
    if zombie:
        # The kernel shows exit_code as 0 to a reader that it would refuse `io`: then 0 may be anything.
        if stat.exit_code or "io" in found:
            found["exit_code"] = stat.exit_code
        else:
            unseen.append(Unseen("processes", "denied", "exit_code reads 0 without permission", pid))
    if spaces is not None:
        return {**found, **spaces}
    try:
        found["cgroup"] = cgroups.label(cgroups.paths(text(folder.read("cgroup"))))
        for field in () if zombie else NAMESPACES:
            found[field] = int(folder.link(f"ns/{field[:3]}").split("[")[1].rstrip("]"))
    except OSError as error:
        say(unseen, "processes", error, "namespaces", pid)
    except (IndexError, ValueError):
        pass
    return found


def parse_io(raw: bytes) -> Io:
    """`/proc/PID/io`. KeyError when a line is missing."""
    fields = parse_status(raw)
    names = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
    return Io(*(int(fields[name]) for name in names))


def words(root: str, process: Process, unseen: List[Unseen]) -> Optional[Process]:
    """The part of `fill` that may block for ever when the target's memory is locked: exe, cwd, command line."""
    pid = process.pid
    if process.state in "ZX":
        unseen.append(Unseen("processes", "zombie", "a zombie has no command line", pid))
        return process
    found: Dict[str, Any] = {}
    try:
        with Folder(root, pid) as folder:
            stat = parse_stat(folder.read("stat"))
            if stat.start != process.start:
                return None
            for name in ("exe", "cwd"):
                try:
                    found[name] = mask(folder.link(name))
                except OSError as error:
                    say(unseen, "processes", error, name, pid)
            raw = folder.read("cmdline", _CMDLINE_LIMIT)
            found["overwritten"] = is_title(raw, stat.arg_end - stat.arg_start, found.get("exe"))
            found["cmdline"] = arguments(raw, title=found["overwritten"])
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            say(unseen, "processes", error, "cmdline", pid)
    return replace(process, **found)


def arguments(raw: bytes, *, title: bool) -> Tuple[str, ...]:
    """The words of a command line, masked; a title stays in one piece."""
    pieces = [raw.rstrip(b"\0")] if title else raw[:-1].split(b"\0") if raw.endswith(b"\0") else raw.split(b"\0")
    if pieces == [b""]:
        return ()
    return mask_arguments(text(piece[:_WORD_LIMIT]) for piece in pieces)


def is_title(raw: bytes, area: int, exe: Optional[str]) -> bool:
    """Whether a command line is a title written over the arguments (setproctitle and its like).

    The kernel gives the argument area (`area` bytes, 0 when unknown) as it is. execve(2) fills it with words that each
    end in one NUL. A title is one piece that is padded with NULs to the area's end, or runs over it into the
    environment, then without an end; one that fits exactly is told by not being the name of what runs.
    """
    piece = raw.rstrip(b"\0")
    if not piece or b"\0" in piece:
        return False
    padding = len(raw) - len(piece)
    if padding == 0:
        return len(raw) < _CMDLINE_LIMIT
    if 0 < area < len(raw):
        return True
    program = text(piece).rpartition("/")[2]
    named = exe is not None and exe.rpartition("/")[2].split(" (deleted)")[0] in (program, program.lstrip("-"))
    if padding == 1:  # a program without arguments looks the same, save that its first word names a program
        return not named and not piece.startswith(b"/") and (b" " in piece or b":" in piece)
    return not named
