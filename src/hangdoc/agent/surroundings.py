"""The second half of a tick: what needs to know the processes first. Sockets, logs, host, Python stacks, health."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Set, Tuple

from ..model.ask import Ask
from ..model.plain import to_plain
from ..model.sample import FileLock, Process, Unseen
from ..probes import filelocks, health, hostfacts, logs, machine, network, pyspy, rings, sockets, storage
from ..probes.reading import reason
from ..probes.syscalls import NUMBER
from . import wire
from .disposable import Emit, Task
from .isolate import Nursery

_LOCK_LINES = 4096
# So many stacks are asked one after the other: py-spy takes 20 ms, a child of our own that waits for it 10 ms more.
_FEW = 2
_AT_ONCE_S = 0.1  # for all servers together to answer their health paths, before children wait for them
_STANDARD = 2  # descriptors that are looked at for the logs alone
_LOCKABLE = ("file", "memfd")
_LOCKING = frozenset(NUMBER[name] for name in ("flock", "fcntl") if name in NUMBER)
_PROBES = frozenset(("sockets", "logs", "host", "storage", "network", "machine", "stacks", "health", "fds"))
_PROBE_OF = {"locks": "fds", "rings": "fds"}  # task -> probe, where they differ
Key = Tuple[str, int]  # task, and the process (or the place in the question) that it is for


def locks(root: str, members: Mapping[int, Mapping[str, Any]], unseen: List[Any]) -> Tuple[List[FileLock], List[str]]:
    """(locks on files that members have open, their lines of `/proc/locks`), as far as members tell. Never blocks.

    The kernel's table is that of the whole machine and takes 15 ms on a busy one, so it is read only where a thread waits
    for a lock, or may: one that is not looked at now may wait for a lock that a member holds.
    """
    paths: Dict[int, str] = {}
    held: Dict[int, List[str]] = {}
    waiting: Dict[int, Set[int]] = {}
    may_wait = False
    for pid, process in members.items():
        fds = process.get("fds", {})
        for fd in fds.values():
            if fd["kind"] in _LOCKABLE and "inode" in fd:
                paths.setdefault(fd["inode"], fd["target"])
            if "locks" in fd:
                held.setdefault(pid, []).extend(fd["locks"])
        table = process.get("threads", {})
        may_wait = may_wait or (len(fds) > _STANDARD and not table)
        for thread in table.values():
            if thread.get("syscall") in _LOCKING:
                number = filelocks.descriptor_waited_for(wire.thread(thread))
                waiting.setdefault(pid, set()).add(fds.get(str(number), {}).get("inode", 0))
            may_wait = may_wait or ("syscall" not in thread and thread["state"] != "R")  # it may not be read
    lines: List[str] = []
    if may_wait or waiting or held:
        try:
            lines = filelocks.read_lines(root)
        except OSError as error:
            unseen.append({"probe": "fds", "reason": reason(error), "detail": f"locks: {error.strerror}"})
    found, kept = filelocks.build(lines, paths, held, waiting)
    return found, kept[:_LOCK_LINES]


def _task(probe: str, field: str, do: Callable[[List[Unseen]], Any]) -> Task:
    """A child's task that sends `{field: value, "unseen": […]}`."""

    def task(emit: Emit) -> None:
        unseen: List[Unseen] = []
        value = None
        try:
            value = do(unseen)
        except NotImplementedError:
            unseen.append(Unseen(probe, "unsupported", "not built in"))
        emit({field: value, "unseen": unseen})

    return task


def _parts(do: Callable[[List[Unseen]], Iterable[Tuple[str, Any]]]) -> Task:
    """A child's task that sends fields one by one as it finds them: what is lost is only what comes after."""

    def task(emit: Emit) -> None:
        unseen: List[Unseen] = []
        for name, value in do(unseen):
            emit({name: value, "unseen": unseen})
            unseen.clear()
        emit({"unseen": unseen})

    return task


def _stacks(root: str, process: Process, ours: Any, deadline: float) -> Task:
    def task(emit: Emit) -> None:
        unseen: List[Unseen] = []
        tool, said = pyspy.find(root, process, ours)
        told: Dict[str, Any] = {"versions": pyspy.versions()}
        if tool is None:
            unseen.append(Unseen("stacks", "tool-missing", said, process.pid))
        else:
            left = max(0.2, deadline - time.monotonic() - 0.2)
            found, python = pyspy.dump(root, process, tool, left, unseen, lambda: emit({}))
            if found is not None:
                told.update(stacks=found, python=python or None)
        emit({"stacks": told, "unseen": unseen})

    return task


def look(
    nursery: Nursery,
    root: str,
    ask: Ask,
    plain: Dict[int, Dict[str, Any]],
    members: Set[int],
    deadline: float,
    unseen: List[Any],
) -> Dict[str, Any]:
    """Fields of the sample; stacks go into `plain`."""
    if not _PROBES & set(ask.probes):
        return {}
    known = {pid: wire.process(one) for pid, one in plain.items() if pid in members}
    questions = [health.Question(root, one) for one in ask.health] if "health" in ask.probes else []
    tasks = _tasks(root, ask, known, questions, deadline)
    fields: Dict[str, Any] = {}
    if "fds" in ask.probes:
        found, kept = locks(root, {pid: plain[pid] for pid in known}, unseen)
        fields = {"file_locks": to_plain(found), "locks": kept}
        if filelocks.incomplete(found):
            tasks["locks", 0] = _task("fds", "file_locks", lambda _: filelocks.find_holders(root, found, members))
        if rings.segments(known):
            tasks["rings", 0] = _task("fds", "rings", lambda unseen: rings.read(root, known, unseen))
    for key in [one for one in tasks if nursery.stuck(one)]:
        del tasks[key]
        detail = "an earlier look at the same did not end and cannot be ended"
        unseen.append(to_plain(Unseen(_PROBE_OF.get(key[0], key[0]), "skipped", detail)))
    few = sum(probe == "stacks" for probe, _ in tasks) <= _FEW

    at_once = min(deadline, time.monotonic() + _AT_ONCE_S)
    begun: Set[int] = set()  # connections that children go on with

    def lasts(key: Key) -> bool:
        if key[0] != "health":
            return key[0] == "stacks" and not few
        question = questions[key[1]]
        if question.go_on(at_once) is not None:
            return False
        nursery.keep.add(question.fileno)
        begun.add(question.fileno)
        return True

    try:
        outcomes = nursery.run_all(tasks, deadline, lasts) if tasks else {}
    finally:
        nursery.keep -= begun
        for question in questions:
            question.close()
    for key, outcome in outcomes.items():
        probe, pid = key
        for part in outcome.parts:
            unseen.extend(part.pop("unseen", ()))
            _put(fields, plain, probe, pid, part)
        if not outcome.parts or outcome.ended != "done":
            about = pid if probe == "stacks" else None
            detail = outcome.detail or "no answer in time"
            unseen.append(to_plain(Unseen(_PROBE_OF.get(probe, probe), outcome.reason, detail, about)))
    return fields


def _put(
    fields: Dict[str, Any], plain: Dict[int, Dict[str, Any]], probe: str, pid: int, part: Mapping[str, Any]
) -> None:
    for name, value in part.items():
        if value is None:
            continue
        if probe == "stacks":
            pyspy.remember(value.pop("versions", ()))  # the child that asked is gone; the next need not ask again
            plain[pid].update(value)
        elif probe == "storage":  # it comes in parts
            fields.setdefault("storage", {}).update(value)
        elif probe == "health":
            fields.setdefault("health", []).append(value)
        else:
            fields[name] = value


def _tasks(
    root: str, ask: Ask, known: Dict[int, Process], questions: Sequence[health.Question], deadline: float
) -> Dict[Key, Task]:
    tasks: Dict[Key, Task] = {}
    alive = {pid: one for pid, one in known.items() if one.state not in "ZX"}
    if "sockets" in ask.probes:
        inodes = {
            fd.inode for one in alive.values() for fd in (one.fds or {}).values() if fd.kind == "socket" and fd.inode
        }
        tasks["sockets", 0] = _task("sockets", "sockets", lambda unseen: sockets.read(root, alive, inodes, unseen))
    if "logs" in ask.probes:
        tasks["logs", 0] = _task(
            "logs", "logs", lambda unseen: logs.read(root, alive, ask.logs, dict(ask.log_offsets), unseen)
        )
    if "host" in ask.probes:
        tasks["host", 0] = _task("host", "host_facts", lambda unseen: hostfacts.read(root, known, unseen))
    if "storage" in ask.probes:
        tasks["storage", 0] = _parts(
            lambda unseen: (("storage", {name: value}) for name, value in storage.read(root, alive, unseen))
        )
    if "network" in ask.probes:
        tasks["network", 0] = _task("network", "networks", lambda unseen: list(network.read(root, alive, unseen)))
    if "machine" in ask.probes:
        tasks["machine", 0] = _parts(lambda unseen: (("machine", one) for one in machine.read(root, unseen)))
    if "stacks" in ask.probes:
        for pid in ask.stack_pids or sorted(alive):
            if pid in alive:
                tasks["stacks", pid] = _stacks(root, alive[pid], ask.pyspy, deadline)
    for number, question in enumerate(questions):
        left = max(0.2, min(2.0, deadline - time.monotonic() - 0.2))
        tasks["health", number] = _task("health", "health", _asking(question, left))
    return tasks


def _asking(question: health.Question, left: float) -> Callable[[List[Unseen]], Any]:
    return lambda _: question.answer(left)
