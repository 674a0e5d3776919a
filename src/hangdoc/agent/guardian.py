"""Attach a tool that pauses its target, only where that can do no lasting harm, and say what it did.

The tool is refused where a thread is in state D, stopped or traced, or the cgroup is frozen: a tracer seizes thread by
thread and waits without limit for one that cannot stop, while those seized before stay stopped. It is killed when we
die (parent-death signal) and at the deadline, with SIGKILL; the state of every thread is looked at before, during and
after. Nothing is mended afterwards: the tools seize (PTRACE_SEIZE) and send no stop signal, so a thread that is stopped
by one was stopped by somebody else, and waking it could destroy what is being looked for.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Dict, List, Optional, Set, Tuple

from ..model.deep import DeepStep
from ..model.frozen import dataclass
from ..model.sample import Process
from ..probes import cgroups, pyspy
from ..probes.calls import parse_syscall
from ..probes.processes import pending_stop
from ..probes.procfs import Folder, parse_stat, parse_status, text
from ..probes.syscalls import NAME

_SETTLE_S = 0.5  # a killed tracer lets its threads go a little later
_STOPPED = "Tt"
_CLOCKED = 512  # threads whose states are looked at while a tool runs
# Calls that returned EINTR to the program when a tracer attached (the last five only with a time-out on the socket);
# all others tried are restarted by the kernel.
_ENDED_EARLY = frozenset(
    ("epoll_wait", "epoll_pwait", "epoll_pwait2", "semop", "semtimedop", "rt_sigtimedwait", "io_uring_enter")
)
_ENDED_WITH_TIMEOUT = frozenset(("recvfrom", "recvmsg", "recvmmsg", "accept", "accept4"))


@dataclass(frozen=True)
class Standing:
    """What must be the same before and after."""

    state: str
    tracer: int = 0
    stopping: bool = False  # a stop signal is pending
    call: str = ""  # name of the call that it is blocked in, where that is readable


@dataclass(frozen=True)
class Guarded:
    """What a tool told (as `pyspy.run` gives it), and what it did."""

    told: Tuple[Optional[int], bytes, bytes]
    step: DeepStep


def standing(root: str, process: Process, *, calls: bool = False) -> Dict[int, Standing]:
    """Every thread of a process. Raises OSError when the process is gone or another one has its number."""
    found: Dict[int, Standing] = {}
    with Folder(root, process.pid) as folder:
        if parse_stat(folder.read("stat")).start != process.start:
            raise ProcessLookupError(f"another process has the number {process.pid}")
        for tid in folder.numbers("task"):
            try:
                status = parse_status(folder.read(f"task/{tid}/status"))
                call = NAME.get(_number(folder, tid), "") if calls else ""
            except OSError:
                continue  # it has just ended
            tracer = int(status.get("TracerPid", "0") or 0)
            found[tid] = Standing(status.get("State", "?")[:1], tracer, pending_stop(status), call)
    return found


def _number(folder: Folder, tid: int) -> int:
    try:
        number = parse_syscall(folder.read(f"task/{tid}/syscall"))[0]
    except PermissionError:
        return -1
    return -1 if number is None else number


def refusal(root: str, process: Process, threads: Dict[int, Standing]) -> Optional[str]:
    """Why nothing may be attached now; None when it may."""
    for tid, one in sorted(threads.items()):
        words = {"D": "is in the kernel (state D) and could not stop", "T": "is stopped", "t": "is stopped by a tracer"}
        if one.state in words:
            return f"thread {tid} {words[one.state]}"
        if one.tracer:
            return f"process {one.tracer} traces thread {tid}"
        if one.stopping:
            return f"a stop signal is pending on thread {tid}"
        if one.state in "ZX" and tid == process.pid:
            return "its main thread has ended"
    if not threads:
        return "it has ended"
    frozen = [path for path, one in cgroups.read(root, {process.pid: process}).items() if one.frozen]
    return f"its cgroup {frozen[0]} is frozen" if frozen else None


def own_rights(path: str) -> Optional[str]:
    """Why a tool must not be used: with rights of its own (set-user-ID, capabilities) it would not die with us."""
    try:
        if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
            return f"{path} is set-user-ID: it would not end with hangdoc"
        if "security.capability" in os.listxattr(path):
            return f"{path} has file capabilities: it would not end with hangdoc"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


class _Clock:
    """How long any thread was stopped, from looks at their states a few milliseconds apart."""

    def __init__(self, root: str, pid: int, tids: List[int]) -> None:
        self._files = [f"{root}/{pid}/task/{tid}/stat" for tid in tids[:_CLOCKED]]
        self.paused_s = 0.0
        self.looks = self.stopped = 0
        self._last: Optional[Tuple[float, bool]] = None

    def __call__(self) -> None:
        """One look; the time since the last one counts whole when both saw a stopped thread, half when one did."""
        stopped = any(_state(path) == "t" for path in self._files)
        now = time.monotonic()
        if self._last is not None:
            self.paused_s += (now - self._last[0]) * (stopped + self._last[1]) / 2
        self._last = now, stopped
        self.looks += 1
        self.stopped += stopped


def _state(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return text(os.read(fd, 512).rpartition(b")")[2][1:2])
    except OSError:
        return ""
    finally:
        os.close(fd)


def attach(
    root: str, process: Process, probe: str, command: List[str], deadline_s: float, before: Dict[int, Standing]
) -> Guarded:
    """Run a tool on a process that `refusal` lets pass, for at most `deadline_s`. `before`: from `standing`."""
    clock = _Clock(root, process.pid, sorted(before))
    began = time.monotonic()
    told = pyspy.run(command, deadline_s, clock)
    clock()
    wall = time.monotonic() - began
    measured = clock.stopped > 0
    step = DeepStep(
        pid=process.pid,
        probe=probe,
        wall_s=round(wall, 3),
        paused_ms=round((clock.paused_s if measured else wall) * 1000, 1),
        measured=measured,
        differs=tuple(_settled(root, process, before)),
        interrupted=tuple(_interrupted(before)),
    )
    return Guarded(told, step)


def _settled(root: str, process: Process, before: Dict[int, Standing]) -> List[str]:
    """What is not as it was, once the tool has had a moment to let go."""
    end = time.monotonic() + _SETTLE_S
    while True:
        try:
            found = list(differences(before, standing(root, process)))
        except OSError:
            return ["the process has ended since"]
        if not found or time.monotonic() >= end:
            return found
        time.sleep(0.01)


def differences(before: Dict[int, Standing], after: Dict[int, Standing]) -> Set[str]:
    """Threads that are stopped, traced, or have a stop signal pending, and were or had not. Pure."""
    found = set()
    for tid, now in sorted(after.items()):
        then = before.get(tid, Standing("?"))
        if now.state in _STOPPED and then.state != now.state:
            found.add(f"thread {tid} is stopped (state {now.state})")
        if then.state in _STOPPED and now.state not in (then.state, "Z", "X"):
            found.add(f"thread {tid} is no longer stopped")
        if now.tracer != then.tracer and now.tracer:
            found.add(f"thread {tid} is traced by process {now.tracer}")
        if now.stopping and not then.stopping:
            found.add(f"a stop signal is pending on thread {tid}")
    return found


def _interrupted(before: Dict[int, Standing]) -> List[str]:
    rows = []
    for tid, one in sorted(before.items()):
        if one.call in _ENDED_EARLY:
            rows.append(f"thread {tid}: {one.call}")
        elif one.call in _ENDED_WITH_TIMEOUT:
            rows.append(f"thread {tid}: {one.call}, if its socket has a time-out")
    return rows
