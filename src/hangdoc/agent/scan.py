"""Every process of the host with its command line, which is how a launch is found when nobody named one.

Command lines are read by few children, each for a number of processes. One that gets stuck costs its own process; the
others of its share are then read by a child each.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Set

from ..model.plain import to_plain
from ..model.sample import Process, Unseen
from ..probes import processes
from .isolate import Emit, Nursery, Task

_SHARE = 64  # processes for one child
_FIRST_ROUND = 0.5  # of the time that is left


def _reader(root: str, share: List[Process]) -> Task:
    def task(emit: Emit) -> None:
        for process in share:
            unseen: List[Unseen] = []
            emit({"process": processes.words(root, process, unseen), "pid": process.pid, "unseen": unseen})

    return task


def scan(nursery: Nursery, root: str, known: Set[int], deadline: float, unseen: List[Any]) -> Dict[int, Dict[str, Any]]:
    """Processes that are not `known` yet, without the kernel's own, as plain values by pid."""
    listed = {pid: one for pid, one in processes.list_all(root).items() if pid not in known}
    listed = {pid: one for pid, one in listed.items() if not processes.is_kernel_thread(one)}
    found = {pid: to_plain(one) for pid, one in listed.items()}
    if nursery.harmless_only:
        return found
    todo = [one for one in listed.values() if one.state not in "ZX"]
    refused: Dict[str, int] = {}
    now = time.monotonic()
    for size, end in ((_SHARE, now + (deadline - now) * _FIRST_ROUND), (1, deadline)):
        shares = [todo[place : place + size] for place in range(0, len(todo), size)]
        tasks: Dict[int, Task] = {number: _reader(root, share) for number, share in enumerate(shares)}
        answered: Set[int] = set()
        for outcome in nursery.run_all(tasks, end).values() if tasks else ():
            for part in outcome.parts:
                answered.add(part["pid"])
                if part["process"] is None:
                    found.pop(part["pid"], None)
                else:
                    found[part["pid"]] = part["process"]
                for one in part["unseen"]:
                    refused[one["reason"]] = refused.get(one["reason"], 0) + 1
        todo = [one for one in todo if one.pid not in answered]
    unseen.extend(
        to_plain(Unseen("scan", "timed-out", f"command line of {one.comm} did not answer", one.pid)) for one in todo
    )
    detail = "names or folders of processes that belong to others"
    unseen.extend(
        {"probe": "scan", "reason": reason, "detail": f"{refused[reason]} {detail}"}
        for reason in sorted(refused)
        if reason != "gone"  # it ended meanwhile: nothing is missing
    )
    return found
