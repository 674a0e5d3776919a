"""What is read of one process, by a disposable child where it may block: cheap facts first, each sent as soon as it is there.

A step that blocks for ever costs itself and those after it, never those before it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..model.frozen import dataclass
from ..model.plain import to_plain
from ..model.sample import Fd, Process, Thread, Unseen
from ..probes import environ, fds, kernelstacks, mapped, packages, pipes, processes, threads, waits
from . import wire
from .disposable import Emit

# step -> (probe that it belongs to, whether it may block), in the order in which they are done
STEPS: Dict[str, Tuple[str, bool]] = {
    "state": ("processes", False),
    "table": ("threads", False),
    "fds": ("fds", False),
    "limits": ("environ", False),
    "kernel": ("kernel", True),
    "pipes": ("fds", True),
    "waits": ("threads", True),
    "words": ("processes", True),
    "environ": ("environ", True),
    "mapped": ("storage", True),
    "packages": ("packages", True),
}
_WAIT_FIELDS = ("futex", "deadline", "poll", "path")

Objects = Dict[str, Tuple[Any, Thread]]  # a thread's number -> its plain value in a table, and what that was made of


@dataclass(frozen=False)
class Look:
    """One process to be looked at. `previous` is its thread table of the last tick, as plain values."""

    root: str
    process: Process
    steps: Sequence[str]
    previous: Mapping[str, Any]
    check_files: Tuple[str, ...] = ()
    standard_fds_only: bool = False
    objects: Objects = field(default_factory=dict)
    spaces: Optional[Dict[str, Any]] = None  # its namespaces and control group, where they need not be read again

    def __call__(self, emit: Emit) -> None:
        """Do the steps; send `{"step", "process": fields, "unseen"}` after each. Whoever takes it makes it plain."""
        self.before: Dict[int, Thread] = self._previous() if {"table", "waits"} & set(self.steps) else {}
        self.threads: Dict[int, Thread] = {}
        self.fds: Dict[int, Fd] = {}
        self.env: Optional[Dict[str, str]] = None
        for step in STEPS:
            if step not in self.steps:
                continue
            unseen: List[Unseen] = []
            do: Callable[[List[Unseen]], Optional[Dict[str, Any]]] = getattr(self, "_" + step)
            found: Optional[Dict[str, Any]] = {}
            try:
                found = do(unseen)
            except NotImplementedError:
                unseen.append(Unseen(STEPS[step][0], "unsupported", "not built in", self.process.pid))
            except Exception as error:  # one broken probe must not cost the others
                unseen.append(
                    Unseen(STEPS[step][0], "failed", f"{step}: {type(error).__name__}: {error}", self.process.pid)
                )
            emit({"step": step, "process": found, "unseen": unseen})
            if found is None:  # gone, or another process has its number
                return

    def _previous(self) -> Dict[int, Thread]:
        """The threads of the last tick. Of those that have not changed since, the same objects as then."""
        known = {}
        for tid, one in self.previous.items():
            before = self.objects.get(tid)
            known[tid] = before if before is not None and before[0] is one else (one, wire.thread(one))
        if known:
            self.objects.clear()
            self.objects.update(known)
        return {int(tid): thread for tid, (_, thread) in known.items()}

    def _state(self, unseen: List[Unseen]) -> Optional[Dict[str, Any]]:
        known = processes.state(self.root, self.process.pid, self.process.start, unseen, self.spaces)
        if known is None:
            return None
        self.process = known
        plain: Dict[str, Any] = to_plain(known)  # without what has its default
        return plain

    def _words(self, unseen: List[Unseen]) -> Optional[Dict[str, Any]]:
        known = processes.words(self.root, self.process, unseen)
        if known is None:
            return None
        self.process = known
        return {name: getattr(known, name) for name in ("exe", "cwd", "cmdline", "overwritten")}

    def _table(self, unseen: List[Unseen]) -> Dict[str, Any]:
        self.threads = threads.table(self.root, self.process.pid, self.before, unseen)
        changed = {tid: one for tid, one in self.threads.items() if one is not self.before.get(tid)}
        same = [tid for tid in self.threads if tid not in changed]
        return {"threads": changed, "same": same}

    def _waits(self, unseen: List[Unseen]) -> Dict[str, Any]:
        found = waits.read(self.root, self.process.pid, self.threads, self.before, unseen)
        news = {}
        for tid, one in found.threads.items():
            old = self.threads[tid]
            if one is not old:
                pairs = ((name, getattr(one, name), getattr(old, name)) for name in _WAIT_FIELDS)
                news[tid] = {name: new for name, new, before in pairs if new != before}
        seen = {"waits": news, "gil": found.gil, "shared": found.shared}
        return {name: value for name, value in seen.items() if value is not None}

    def _fds(self, unseen: List[Unseen]) -> Dict[str, Any]:
        only = (1, 2) if self.standard_fds_only else ()
        self.fds = fds.read(self.root, self.process.pid, unseen, only=only)
        return {"fds": self.fds}

    def _pipes(self, unseen: List[Unseen]) -> Dict[str, Any]:
        filled = pipes.fill(self.root, self.process, self.threads, self.fds, unseen)
        return {"pipes": filled}

    def _kernel(self, unseen: List[Unseen]) -> Dict[str, Any]:
        return {"kernel_stacks": kernelstacks.read(self.root, self.process.pid, unseen)}

    def _limits(self, unseen: List[Unseen]) -> Dict[str, Any]:
        bounds = environ.confinement(self.root, self.process.pid)
        return {"limits": environ.limits(self.root, self.process.pid, unseen), **bounds}

    def _environ(self, unseen: List[Unseen]) -> Dict[str, Any]:
        self.env = environ.read(self.root, self.process.pid, unseen)
        return {"env": self.env}

    def _mapped(self, unseen: List[Unseen]) -> Dict[str, Any]:
        preload = (self.env or {}).get("LD_PRELOAD", "")
        weights, libraries = mapped.read(self.root, self.process.pid, preload, unseen)
        return {"weights": weights, "libraries": libraries}

    def _packages(self, unseen: List[Unseen]) -> Dict[str, Any]:
        versions, modified = packages.read(self.root, self.process, self.check_files, unseen)
        return {"packages": versions, "modified": modified}


def merge(plain: Dict[str, Any], part: Mapping[str, Any], previous: Mapping[str, Any]) -> None:
    """Put one part of a child's answer into the plain process that is being built."""
    fields = dict(part.get("process") or {})
    changed, same, waits = fields.pop("threads", None), fields.pop("same", ()), fields.pop("waits", {})
    pipes_ = fields.pop("pipes", {})
    plain.update(fields)
    plain.get("fds", {}).update(pipes_)
    if changed is not None:
        table = {str(tid): previous[str(tid)] for tid in same if str(tid) in previous}
        table.update(changed)
        plain["threads"] = dict(sorted(table.items(), key=lambda item: int(item[0])))
    for tid, news in waits.items():
        table = plain.get("threads", {})
        if tid in table:
            table[tid] = {**table[tid], **news}


def missed(steps: Sequence[str], parts: Sequence[Mapping[str, Any]]) -> List[str]:
    """The steps that were asked for and did not answer, in order: the first one is where the child got stuck."""
    done = {part.get("step") for part in parts}
    if any(part.get("process", {}) is None for part in parts):
        return []
    return [step for step in STEPS if step in steps and step not in done]
