"""Looks closer at the few processes that a question names: many quick looks, native stacks, system calls.

`glance` pauses nothing. `native` and `strace` attach a tool, one process after the other, under the guardian.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..model.ask import Ask
from ..model.plain import to_plain
from ..model.sample import Process, Unseen
from ..probes import DEEP, fds, glance, mounts, pyspy, strace
from ..probes.procfs import Folder, text
from . import guardian, wire
from .disposable import Emit, Task
from .isolate import Nursery

TOOL_S = 2.0  # a tool may be attached for so long
_MARGIN_S = 1.0  # for checks before and after
_MAPS_LIMIT = 64 << 20

Do = Callable[[List[Unseen]], Dict[str, Any]]


def look(
    nursery: Nursery, root: str, ask: Ask, plain: Dict[int, Dict[str, Any]], deadline: float, unseen: List[Any]
) -> Dict[str, Any]:
    """Fields of the sample; what belongs to a process goes into `plain`. Raises only isolate.Hangup."""
    asked = [probe for probe in DEEP if probe in ask.probes]
    alive = [pid for pid in ask.deep_pids if pid in plain and plain[pid].get("state", "?") not in "ZX"]
    fields: Dict[str, Any] = {}
    for probe in asked:
        if probe == "glance":
            _run(nursery, root, [(probe, pid) for pid in alive], ask, plain, deadline, unseen)
            continue
        for pid in alive:
            fields.setdefault("deep", []).extend(_run(nursery, root, [(probe, pid)], ask, plain, deadline, unseen))
    return fields


def _run(
    nursery: Nursery,
    root: str,
    keys: List[Tuple[str, int]],
    ask: Ask,
    plain: Dict[int, Dict[str, Any]],
    deadline: float,
    unseen: List[Any],
) -> List[Dict[str, Any]]:
    """Do these, each in a child, at the same time. Returns the steps that attached a tool."""
    tasks = {key: _task(key[0], root, wire.process(plain[key[1]]), ask.pyspy, deadline) for key in keys}
    steps: List[Dict[str, Any]] = []
    for (probe, pid), outcome in nursery.run_all(tasks, deadline, lambda _: True).items():
        for part in outcome.parts:
            unseen.extend(part.pop("unseen", ()))
            steps.extend([part.pop("step")] if "step" in part else [])
            plain[pid].update(part)
        if not outcome.parts:
            unseen.append(to_plain(Unseen(probe, outcome.reason, outcome.detail or "no answer in time", pid)))
    return steps


def _task(probe: str, root: str, process: Process, ours: Optional[str], deadline: float) -> Task:
    def task(emit: Emit) -> None:
        unseen: List[Unseen] = []
        if probe == "glance":
            seconds = min(glance.SECONDS, deadline - time.monotonic() - 0.2)
            found = glance.read(root, process, unseen, seconds=max(0.1, seconds))
            fields = {} if found is None or not found.looks else {"glance": found}
        else:
            do = _native if probe == "native" else _strace
            fields = do(root, process, ours, min(TOOL_S, deadline - time.monotonic() - _MARGIN_S), unseen)
        emit({**fields, "unseen": unseen})

    return task


def _native(root: str, process: Process, ours: Optional[str], limit_s: float, unseen: List[Unseen]) -> Dict[str, Any]:
    tool, said = pyspy.find(root, process, ours)
    command = [tool or "", "dump", "--native", "--json", "--pid", str(process.pid)]
    guarded = _guarded(root, process, "native", (tool, said, command), limit_s, unseen)
    if guarded is None:
        return {}
    found, _ = pyspy.understood(root, process, guarded.told, limit_s, unseen, "native")
    return {"step": guarded.step, **({} if found is None else {"native": found})}


def _strace(root: str, process: Process, _: Optional[str], limit_s: float, unseen: List[Unseen]) -> Dict[str, Any]:
    tool, said = strace.find()
    table = fds.read(root, process.pid, [])
    command = strace.command(tool or "", process.pid)
    guarded = _guarded(root, process, "strace", (tool, said, command), limit_s, unseen)
    if guarded is None:
        return {}
    code, words = guarded.told[0], guarded.told[2]
    lines = text(words)
    trace = strace.summarise(lines, process.pid, guarded.step.wall_s, table)
    if code not in (None, 0) and not trace.calls:
        said = " ".join(lines.split())[:300]
        unseen.append(Unseen("strace", pyspy.classify(said), said or f"strace ended with {code}", process.pid))
        return {"step": guarded.step}
    return {"step": guarded.step, "trace": trace}


def _guarded(
    root: str,
    process: Process,
    probe: str,
    tool: Tuple[Optional[str], str, List[str]],
    limit_s: float,
    unseen: List[Unseen],
) -> Optional[guardian.Guarded]:
    """The tool's run, or None and why not."""
    path, said, command = tool
    try:
        before = guardian.standing(root, process, calls=True)
    except OSError as error:
        unseen.append(Unseen(probe, "gone", error.strerror or str(error), process.pid))
        return None
    if path is None:
        unseen.append(Unseen(probe, "tool-missing", said, process.pid))
        return None
    why = guardian.own_rights(path) or guardian.refusal(root, process, before)
    if why is None and limit_s < 0.2:
        why = "no time was left for it"
    if why is None and probe == "native":
        why = _files_that_do_not_answer(root, process)
    if why is not None:
        unseen.append(Unseen(probe, "skipped", why, process.pid))
        return None
    return guardian.attach(root, process, probe, command, limit_s, before)


def _files_that_do_not_answer(root: str, process: Process) -> Optional[str]:
    """py-spy reads every mapped program and library; on a dead file system it could not be killed, its target paused."""
    with Folder(root, process.pid) as folder:
        lines = folder.read("maps", _MAPS_LIMIT).splitlines()
    paths = {os.fsdecode(words[5]) for words in (line.split(None, 5) for line in lines) if len(words) == 6}
    silent = mounts.dead_below(root, process.pid, sorted(path for path in paths if path.startswith("/")))
    return f"{silent[0]} lies on a file system that does not answer" if silent else None
