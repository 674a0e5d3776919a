"""Threads: what each one is doing, read without stopping it."""

from __future__ import annotations

import errno
from typing import Dict, List, Optional, Tuple

from ..model.sample import Thread, Unseen
from . import waits
from .calls import parse_schedstat, parse_syscall
from .processes import pending_stop
from .procfs import TICK, Folder, parse_status, say, text
from .reading import reason
from .syscalls import NUMBER

_ASLEEP = "SID"


def read(root: str, pid: int, previous: Optional[Dict[int, Thread]], unseen: List[Unseen]) -> Dict[int, Thread]:
    """Threads of a process by tid. A thread whose schedstat equals that of `previous` is taken over unread."""
    found = table(root, pid, previous, unseen)
    return waits.read(root, pid, found, previous, unseen).threads


def table(root: str, pid: int, previous: Optional[Dict[int, Thread]], unseen: List[Unseen]) -> Dict[int, Thread]:
    """The part of `read` that never blocks: schedstat, stat, syscall, wchan, status; nothing of the target's memory."""
    try:
        with Folder(root, pid) as folder:
            return _Reader(folder, previous or {}, unseen).table()
    except OSError as error:
        say(unseen, "threads", error, "task", pid)
        return {}


class _Reader:
    """One pass over the threads of a process; remembers what was refused, so that it is said once."""

    def __init__(self, folder: Folder, previous: Dict[int, Thread], unseen: List[Unseen]) -> None:
        self.folder = folder
        self.previous = previous
        self.unseen = unseen
        self.refused: Dict[str, OSError] = {}  # file -> first refusal: the others would be refused too
        self.nested = len(parse_status(folder.read("status")).get("NSpid", "").split()) > 1

    def table(self) -> Dict[int, Thread]:
        found: Dict[int, Thread] = {}
        for tid in self.folder.numbers("task"):
            try:
                found[tid] = self.one(tid)
            except OSError as error:
                if reason(error) != "gone":
                    raise
            except ValueError:
                continue
        self.complain(found)
        return found

    def one(self, tid: int) -> Thread:
        task = f"task/{tid}/"
        ran, waited, slices = self.schedstat(task)
        before = self.previous.get(tid)
        if (
            before is not None
            and slices
            and (before.slices, before.ran_ns, before.waited_ns) == (slices, ran, waited)
            and before.state in "STtI"  # a D thread may get a stop signal without running; an R one is running
            and before.syscall is not None  # refused: ask again, so that it is said again
        ):
            return before
        raw = self.folder.read(task + "stat")
        closing = raw.rindex(b")")
        rest = raw[closing + 1 :].split()
        state = text(rest[0])
        number, args, sp, pc = self.syscall(task)
        wchan = self.wchan(task, state)
        nstid, stopping = before.nstid if before else None, False
        if state == "D" or (self.nested and nstid is None):
            status = parse_status(self.folder.read(task + "status"))
            stopping = pending_stop(status)
            if self.nested:
                nstid = int(status["NSpid"].split()[-1])
        return Thread(
            tid=tid,
            state=state,
            name=text(raw[raw.index(b"(") + 1 : closing]),
            nstid=nstid,
            wchan=wchan,
            syscall=restarted(number, args, wchan),
            args=args,
            sp=sp,
            pc=pc,
            utime=int(rest[11]) / TICK,
            stime=int(rest[12]) / TICK,
            ran_ns=ran,
            waited_ns=waited,
            slices=slices,
            pending_stop=stopping,
        )

    def optional(self, path: str, name: str) -> Optional[bytes]:
        """A file that may be refused or may not exist on this kernel."""
        if name in self.refused:
            return None
        try:
            return self.folder.read(path + name)
        except OSError as error:
            if error.errno == errno.ESRCH:
                raise
            if error.errno == errno.ENOENT:
                self.folder.read(path + "stat")  # gone with its thread, or no such file here?
            self.refused[name] = error
            return None

    def schedstat(self, task: str) -> Tuple[Optional[int], Optional[int], Optional[int]]:
        return parse_schedstat(self.optional(task, "schedstat") or b"")

    def syscall(self, task: str) -> Tuple[Optional[int], Tuple[int, ...], Optional[int], Optional[int]]:
        return parse_syscall(self.optional(task, "syscall") or b"")

    def wchan(self, task: str, state: str) -> Optional[str]:
        raw = self.optional(task, "wchan")
        if not raw:
            return None
        # "0" for a sleeper is what a reader without permission gets, without an error.
        return None if raw == b"0" and state in _ASLEEP else text(raw)

    def complain(self, found: Dict[int, Thread]) -> None:
        pid = self.folder.pid
        for name, error in sorted(self.refused.items()):
            if reason(error) == "gone":
                self.unseen.append(Unseen("threads", "unsupported", f"{name}: this kernel has none", pid))
            else:
                say(self.unseen, "threads", error, name, pid)
        hidden = "syscall" in self.refused and any(one.wchan is None and one.state in _ASLEEP for one in found.values())
        if hidden and reason(self.refused["syscall"]) == "denied":
            self.unseen.append(Unseen("threads", "denied", "wchan reads 0 for sleeping threads", pid))


# Part of the wait channel -> the call that restart_syscall(2) goes on with. Its arguments stay those of that call.
_RESTARTED = (("futex", "futex"), ("poll", "poll"), ("nanosleep", "nanosleep"))


def restarted(number: Optional[int], args: Tuple[int, ...], wchan: Optional[str]) -> Optional[int]:
    """The number, with restart_syscall(2) replaced by the call that it restarts, where arguments and wchan tell."""
    if number is None or number != NUMBER.get("restart_syscall") or not wchan:
        return number
    for part, name in _RESTARTED:
        if part in wchan:
            # clock_nanosleep begins with a clock's number, nanosleep with a pointer
            real = "clock_nanosleep" if name == "nanosleep" and args and args[0] < 4096 else name
            return NUMBER.get(real, NUMBER.get("p" + real, number))
    return number
