"""Every process of the host with its command line, which is how a launch is found when nobody named one."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from ..model.plain import to_plain
from ..model.sample import Process, Unseen
from ..probes import processes
from .disposable import Emit, Task
from .isolate import Nursery


def _reader(root: str, process: Process) -> Task:
    def task(emit: Emit) -> None:
        unseen: List[Unseen] = []
        emit({"process": processes.words(root, process, unseen), "unseen": unseen})

    return task


def scan(nursery: Nursery, root: str, known: Set[int], deadline: float, unseen: List[Any]) -> Dict[int, Dict[str, Any]]:
    """Processes that are not `known` yet, without the kernel's own, as plain values by pid."""
    listed = {pid: one for pid, one in processes.list_all(root).items() if pid not in known}
    found = {pid: to_plain(one) for pid, one in listed.items()}
    if nursery.harmless_only:
        return found
    todo = [one for one in listed.values() if one.state not in "ZX"]
    refused: Dict[str, int] = {}
    outcomes = nursery.run_all({one.pid: _reader(root, one) for one in todo}, deadline)
    for process in todo:
        outcome = outcomes[process.pid]
        if not outcome.parts:
            why = f": {outcome.detail}" if outcome.detail else ""
            said = f"command line of {process.comm} did not answer{why}"
            unseen.append(to_plain(Unseen("scan", outcome.reason, said, process.pid)))
            continue
        (part,) = outcome.parts
        if part["process"] is None:
            found.pop(process.pid, None)
        else:
            found[process.pid] = part["process"]
        for one in part["unseen"]:
            refused[one["reason"]] = refused.get(one["reason"], 0) + 1
    detail = "names or folders of processes that belong to others"
    unseen.extend(
        {"probe": "scan", "reason": reason, "detail": f"{refused[reason]} {detail}"}
        for reason in sorted(refused)
        if reason != "gone"  # it ended meanwhile: nothing is missing
    )
    return found
