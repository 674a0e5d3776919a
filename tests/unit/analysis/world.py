"""A small world of plain samples: a SGLang launch of two ranks, to be bent by each test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.sample import (
    Fd,
    FileLock,
    Frame,
    Health,
    HostFacts,
    Log,
    LogChunk,
    Process,
    Sample,
    Socket,
    Stack,
    Storage,
    Thread,
)

BOOT, WALL = 1_000.0, 1_700_000_000.0
ROOT, TP0, TP1, DETOK = 100, 101, 102, 103
SITE = "/opt/venv/lib/python3.11/site-packages"
FACTS = HostFacts(name="box", arch="x86_64", kernel="6.8")
ARGV = (
    "/opt/venv/bin/python",
    "-m",
    "sglang.launch_server",
    "--model-path",
    "/models/m",
    "--tp",
    "2",
    "--port",
    "8000",
)

RECV_PIPE = (
    ("wait", f"{SITE[:-14]}/multiprocessing/connection.py"),
    ("_launch_subprocesses", f"{SITE}/sglang/srt/entrypoints/engine.py"),
    ("launch_server", f"{SITE}/sglang/srt/entrypoints/http_server.py"),
)
SCHEDULER = (("run_scheduler_process", f"{SITE}/sglang/srt/managers/scheduler.py"),)
INIT = (
    ("ModelRunner.initialize", f"{SITE}/sglang/srt/model_executor/model_runner.py"),
    ("Scheduler.__init__", f"{SITE}/sglang/srt/managers/scheduler.py"),
    *SCHEDULER,
)
LOAD = (("ModelRunner.load_model", f"{SITE}/sglang/srt/model_executor/model_runner.py"), *INIT)
BARRIER = (("barrier", f"{SITE}/torch/distributed/distributed_c10d.py"), *LOAD)
DETOKENIZER = (
    ("Socket.recv_pyobj", f"{SITE}/zmq/sugar/socket.py"),
    ("DetokenizerManager.event_loop", f"{SITE}/sglang/srt/managers/detokenizer_manager.py"),
)
HOOK = ("hook", "/home/me/patch.py")  # code that no profile knows


def stack(tid: int, frames: Any, *, gil: bool = False) -> Stack:
    """A Python stack; frames are (function, file), innermost first."""
    return Stack(tid, "MainThread", True, gil, tuple(Frame(name, file, file, 7) for name, file in frames))


def waiting(tid: int, **changes: Any) -> Thread:
    """A thread that waits in poll and does not run."""
    thread = Thread(tid, "S", "python", wchan="do_poll", syscall=7, args=(1, 1, 5000, 0, 0, 0), sp=1, pc=2, slices=5)
    return replace(thread, **changes)


def process(pid: int, ppid: int, title: str, frames: Any, **changes: Any) -> Process:
    """A member that waits in the frames given."""
    words = tuple(title.split()) if " " in title else (title,)
    thread = changes.pop("thread", waiting(pid))
    return replace(
        Process(
            pid, ppid, BOOT - 600 + pid / 100, "S", title[:15], cmdline=words, num_threads=1, rss=1 << 30,
            threads={pid: thread}, fds=changes.pop("fds", {}), stacks=[stack(pid, frames, gil=changes.pop("gil", False))],
            cgroup="/x",
        ),
        **changes,
    )  # fmt: skip


class World:
    """Processes, log and health of a launch; `diagnose` looks at it tick by tick."""

    def __init__(self) -> None:
        self.processes = {
            ROOT: process(ROOT, 1, " ".join(ARGV), RECV_PIPE),
            TP0: process(TP0, ROOT, "sglang::scheduler_TP0", BARRIER),
            TP1: process(TP1, ROOT, "sglang::scheduler_TP1", LOAD),
            DETOK: process(DETOK, ROOT, "sglang::detokenizer", DETOKENIZER),
        }
        self.log = ""
        self.mtime = WALL - 60
        self.storage: Storage | None = None
        self.sockets: list[Socket] = []
        self.health: list[Health] = []
        self.facts = FACTS
        self.unseen: list[Any] = []
        self.file_locks: list[FileLock] = []

    def bend(self, pid: int, frames: Any = None, **changes: Any) -> None:
        """Change one process: frames of its main thread, fields of it, `thread` for its main thread."""
        old = self.processes[pid]
        thread = changes.pop("thread", None)
        gil = changes.pop("gil", False)
        if thread is not None:
            changes["threads"] = {pid: thread, **changes.pop("others", {})}
        if frames is not None:
            changes["stacks"] = [stack(pid, frames, gil=gil)]
        self.processes[pid] = replace(old, **changes)

    def sample(self, at: float, new_log: str = "") -> Sample:
        """What is seen `at` seconds after the look began."""
        logs = []
        if self.log or new_log:
            start = len(self.log)
            text = new_log if new_log else ("" if at else self.log)
            chunk = LogChunk(start if new_log else 0, text, len(text))
            self.log += new_log
            logs = [
                Log(
                    "/log",
                    "file",
                    (ROOT,),
                    size=len(self.log),
                    mtime=self.mtime,
                    inode=9,
                    chunks=(chunk,) if text else (),
                )
            ]
        return Sample(
            "box", WALL + at, BOOT + at, BOOT + at, ("processes", "threads", "fds", "stacks", "logs", "health"),
            dict(self.processes), list(self.sockets), logs, list(self.health), self.facts, unseen=list(self.unseen),
            file_locks=list(self.file_locks), storage=self.storage,
        )  # fmt: skip


def look(world: World, seconds: int = 16, move: Any = None) -> Diagnosis:
    """One sample a second; `move(world, second)` may change the world and return new log text."""
    diagnosis = Diagnosis(ROOT)
    for second in range(seconds):
        text = move(world, second) if move else ""
        diagnosis.add(world.sample(float(second), text or ""))
    return diagnosis


def pipe(fd: int, inode: int = 77) -> Fd:
    """A pipe."""
    return Fd(fd, "pipe", f"pipe:[{inode}]", inode)
