"""Answer one question: look at the members, each risky read in a child of its own, and put one sample together.

The sample is built of plain JSON values: what the children send is already that.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from ..model.ask import Ask
from ..model.frozen import replace
from ..model.plain import to_plain
from ..model.sample import Process, Unseen
from ..probes import DEEP, PROBES, processes
from . import surroundings
from .deaths import Deaths
from .disposable import Task
from .isolate import Nursery, Outcome
from .look import STEPS, Look, Objects, merge, missed
from .outputs import Outputs
from .resting import Resting
from .scan import scan

_FIRST_SHARE = 0.4  # of the deadline for the processes themselves; sockets, logs, stacks and health have the rest
_ANSWER_S = 0.1  # kept back for writing the answer
_RETRY_S = 30.0  # a step that blocked is left alone for so long
# A command line is read again when the name beside it (comm) changes; else once after 10 s, for an exec may keep that
# name, and then now and then.
_WORDS_S, _WORDS_LATER_S = 10.0, 60.0
# What it has mapped and its variables, as file systems are asked for them: `maps` of a process with CUDA has thousands of lines.
_MAPPED, _MAPPED_S = ("environ", "mapped"), 25.0
_PARENTS_S = 10.0  # after so long without a question the number of a process may be that of another one
_LISTED_S = 5.0  # processes are listed at least so often
Identity = Tuple[int, float]


class _Known(NamedTuple):
    """What steps told of a process, good for some time while it is the same program."""

    comm: str
    until: float
    fields: Dict[str, Any]

    def good(self, process: Process, now: float) -> bool:
        """Whether it need not be asked again."""
        return self.comm == process.comm and self.until > now


_NOTHING = _Known("", 0.0, {})


class Ticker:
    """Answers questions one after the other; keeps the thread tables between them."""

    def __init__(self, nursery: Optional[Nursery] = None, root: str = "/proc") -> None:
        self.nursery = nursery or Nursery()
        self.root = root
        self.tables: Dict[Identity, Dict[str, Any]] = {}
        self.objects: Dict[Identity, Objects] = {}  # what those tables were made of
        self.undecoded: Set[Identity] = set()  # whose table has threads that were read without the step "waits"
        self.blocked: Dict[Tuple[Identity, str], float] = {}  # step that got stuck -> when it may be tried again
        self.parents: Dict[int, int] = {}
        self._parents_at = self._listed_at = float("-inf")
        self._newest: Optional[int] = None  # process or thread when they were listed
        self.shared: Dict[Identity, List[str]] = {}  # read only when a thread has news; it seldom changes
        self.deaths = Deaths(root)
        self.above: Set[int] = set()  # processes of the agent itself that stand above this one
        self.outputs = Outputs()
        self.resting = Resting(root)
        self.spaces: Dict[Identity, Dict[str, Any]] = {}  # namespaces and control group, good as long as the words
        self.words: Dict[Identity, _Known] = {}  # of step "words"
        self.mapped: Dict[Identity, _Known] = {}  # of the steps `_MAPPED`

    def answer(self, ask: Ask) -> Dict[str, Any]:
        """The sample as plain values. Raises only isolate.Hangup."""
        began, cpu, children, spent = time.monotonic(), time.process_time(), self.nursery.started, _children_s()
        sample: Dict[str, Any] = {
            "host": os.uname().nodename,
            "at": time.time(),
            "mono": began,
            "boot": time.clock_gettime(time.CLOCK_BOOTTIME),
            "probes": list(ask.probes),
        }
        unseen: List[Any] = [
            to_plain(Unseen(name, "unsupported", "this agent does not know that probe"))
            for name in ask.probes
            if name not in PROBES
        ]
        if self.nursery.harmless_only:
            detail = f"{self.nursery.abandoned} children got stuck and cannot be ended; only harmless reads go on"
            unseen.append(to_plain(Unseen("agent", "skipped", detail)))
        members = self.members(ask, unseen)
        end = began + max(0.2, ask.deadline_s - _ANSWER_S)
        first_end = began + max(0.15, ask.deadline_s * _FIRST_SHARE)
        plain = self.look_at(ask, members, first_end, unseen)
        if "scan" in ask.probes:
            plain = {**scan(self.nursery, self.root, set(plain) | self.own(self.parents), first_end, unseen), **plain}
        if not self.nursery.harmless_only:
            mine = {pid: one for pid, one in plain.items() if pid in members}
            if "logs" in ask.probes and self.outputs.same(ask, mine, began):
                ask = replace(ask, probes=tuple(name for name in ask.probes if name != "logs"))
            sample.update(surroundings.look(self.nursery, self.root, ask, plain, set(members), end, unseen))
            if "logs" in ask.probes:
                self.outputs.read(mine, sample.get("logs", []), began)
            sample.update(self.closer(ask, plain, end, unseen))
        sample["processes"] = {str(pid): one for pid, one in sorted(plain.items())}
        sample["unseen"] = unseen
        sample["ended"] = self.deaths.take()
        self.deaths.hold(members)
        abandoned = self.nursery.abandoned  # reaps, so that the CPU of all who ended is known
        sample["cost"] = {
            "wall_s": round(time.monotonic() - began, 4),
            "cpu_s": round(time.process_time() - cpu + _children_s() - spent, 4),
            "children": self.nursery.started - children,
            "abandoned": abandoned,
            "paused_ms": paused_ms(sample),
        }
        return sample

    def closer(self, ask: Ask, plain: Dict[int, Dict[str, Any]], deadline: float, unseen: List[Any]) -> Dict[str, Any]:
        """What `glance`, `native` and `strace` say, where they are asked for."""
        if not set(DEEP) & set(ask.probes):
            return {}
        from . import deep  # noqa: PLC0415 - seldom wanted

        return deep.look(self.nursery, self.root, ask, plain, deadline, unseen)

    def members(self, ask: Ask, unseen: List[Any]) -> Dict[int, Process]:
        """The asked processes and their descendants, without the agent itself."""
        self._find_parents()
        found = {}
        for pid in sorted(descendants(self.parents, ask.pids) - self.own(self.parents)):
            stat = processes.stat_of(self.root, pid)
            if stat is not None:
                self.parents[pid] = stat.ppid
                found[pid] = Process(pid, stat.ppid, stat.start, stat.state, stat.comm)
            elif pid in ask.pids:
                unseen.append(to_plain(Unseen("processes", "gone", f"there is no process {pid}", pid)))
        return found

    def _find_parents(self) -> None:
        """Whose child every process is. To list them all takes half of a tick: not while there can be no new one."""
        now, newest = time.monotonic(), processes.newest(self.root)
        asked, self._parents_at = self._parents_at, now
        if now - asked > _PARENTS_S:
            self.parents = {}
        elif newest is not None and newest == self._newest and now - self._listed_at < _LISTED_S:
            return
        self._newest, self._listed_at = newest, now
        parents = {}
        for pid in processes.pids(self.root):
            # A parent changes only when it dies, and then its known children are asked for by number.
            known = self.parents.get(pid)
            if known is None:
                stat = processes.stat_of(self.root, pid)
                known = stat.ppid if stat is not None else None
            if known is not None:
                parents[pid] = known
        self.parents = parents

    def own(self, parents: Mapping[int, int]) -> Set[int]:
        """The processes of the agent, with children that stay or could not be ended: no part of what is looked at."""
        roots = (*self.nursery.unreaped, *self.nursery.kept)
        return {os.getpid()} | self.above | (descendants(parents, roots) if roots else set())

    def steps(self, ask: Ask, process: Process) -> List[str]:
        """What a child has to do for a process."""
        wanted = not ask.thread_pids or process.pid in ask.thread_pids
        probes = {name for name in ask.probes if wanted or name not in ("threads", "fds")}
        if probes & {"stacks", "logs", "packages"}:
            probes.add("processes")
        if probes & {"storage", "network"}:
            probes |= {"processes", "environ"}  # arguments and variables name folders and interfaces
        steps = [step for step, (probe, _) in STEPS.items() if probe in probes or step == "state"]
        if "fds" not in steps and {"logs", "sockets"} & set(ask.probes):
            steps.append("fds")  # names alone, which never block
        if ask.wait_pids is not None and process.pid not in ask.wait_pids:
            steps = [step for step in steps if step != "waits"]
        return steps

    def look_at(
        self, ask: Ask, members: Mapping[int, Process], deadline: float, unseen: List[Any]
    ) -> Dict[int, Dict[str, Any]]:
        """The members as plain values; what may block is done by children."""
        now, harmless = time.monotonic(), self.nursery.harmless_only
        looks: Dict[int, Look] = {}
        asked: Dict[int, List[str]] = {}
        rest: Dict[int, Dict[str, Any]] = {}
        for pid, process in members.items():
            identity = (pid, process.start)
            steps = self.steps(ask, process)
            spaces = None
            if self.words.get(identity, _NOTHING).good(process, now) and "packages" not in steps:
                spaces = self.spaces.get(identity)
                steps = [step for step in steps if step != "words"]
            if not {"environ", "network"} & set(ask.probes) and self.mapped.get(identity, _NOTHING).good(process, now):
                steps = [step for step in steps if step not in _MAPPED]
            others = bool(ask.thread_pids) and pid not in ask.thread_pids
            standard = "sockets" not in ask.probes and ("fds" not in ask.probes or others)  # for their logs alone
            if standard and set(steps) <= {"state", "fds"} and ask.needed is not None and pid not in ask.needed:
                known = self.resting.plain(identity, now, fds="fds" in steps)
                if known is not None:
                    rest[pid] = known
                    continue
            stuck = [step for step in steps if self.blocked.get((identity, step), 0.0) > now]
            for step in stuck:
                detail = f"{step} did not answer before; tried again every {_RETRY_S:.0f} s"
                unseen.append(to_plain(Unseen(STEPS[step][0], "skipped", detail, pid)))
            asked[pid] = [one for one in steps if one not in stuck and not (harmless and STEPS[one][1])]
            # What did not run since a look without "waits" has never been decoded: then every thread is read anew.
            undecoded = "waits" in asked[pid] and identity in self.undecoded
            previous = {} if undecoded else self.tables.get(identity, {})
            objects = self.objects.setdefault(identity, {})
            looks[pid] = Look(self.root, process, asked[pid], previous, ask.check_files, standard, objects, spaces)
        outcomes = {pid: _here(looks.pop(pid)) for pid in list(looks) if _cheap(asked[pid], looks[pid])}
        outcomes.update(self.nursery.run_all(looks, deadline))
        plain = rest
        for pid, outcome in outcomes.items():
            process = members[pid]
            said: List[Any] = []
            built = self.put_together(process, asked[pid], outcome, said)
            if built is not None:
                if "storage" in ask.probes and "mapped" not in asked[pid]:
                    built.update(self.mapped.get((pid, process.start), _NOTHING).fields)
                plain[pid] = built
                self.resting.keep((pid, process.start), built)
            if built is not None or pid in ask.pids:  # that a helper of a member has ended is nothing unseen
                unseen.extend(said)
        self.keep_tables(plain, members, asked)
        return plain

    def put_together(
        self, process: Process, steps: List[str], outcome: Outcome, unseen: List[Any]
    ) -> Optional[Dict[str, Any]]:
        """One process from what its child sent before it ended, or was ended. None when it is gone."""
        identity = (process.pid, process.start)
        plain: Dict[str, Any] = to_plain(process)
        previous = self.tables.get(identity, {})
        plain.update(self.words.get(identity, _NOTHING).fields)
        mapped: Dict[str, Any] = {}
        for part in outcome.parts:
            unseen.extend(part.get("unseen", ()))
            merge(plain, part, previous)
            if part.get("process", {}) is None:
                return None
            # An empty command line is what one looks like in the middle of an exec: not worth keeping.
            if part["step"] == "words" and not part["unseen"] and part["process"]["cmdline"]:
                good = _WORDS_LATER_S if identity in self.words else _WORDS_S
                self.words[identity] = _Known(process.comm, time.monotonic() + good, part["process"])
            if part["step"] in _MAPPED and not part["unseen"]:
                mapped.update(part["process"])
        if "weights" in mapped and "env" in mapped:
            self.mapped[identity] = _Known(process.comm, time.monotonic() + _MAPPED_S, mapped)
        lost = missed(steps, outcome.parts)
        for place, step in enumerate(lost):
            if place == 0:
                if outcome.reason == "timed-out":
                    self.blocked[(identity, step)] = time.monotonic() + _RETRY_S
                unseen.append(
                    _lost(step, outcome.reason, outcome.detail or f"{step} did not answer in time", process.pid)
                )
            else:
                unseen.append(_lost(step, "skipped", f"{step}: after {lost[0]}, which did not answer", process.pid))
        return plain

    def keep_tables(
        self, plain: Mapping[int, Dict[str, Any]], members: Mapping[int, Process], asked: Mapping[int, List[str]]
    ) -> None:
        """Remember the thread tables; forget those of processes that are gone."""
        alive = {(pid, one.start) for pid, one in members.items()}
        by_identity: Tuple[Dict[Identity, Any], ...] = (
            self.tables, self.objects, self.shared, self.words, self.mapped, self.spaces
        )  # fmt: skip
        for known_of in by_identity:
            for identity in known_of.keys() - alive:
                del known_of[identity]
        self.resting.forget_all_but(alive)
        self.blocked = {key: until for key, until in self.blocked.items() if key[0] in alive}
        for pid, one in plain.items():
            identity = (pid, members[pid].start)
            known = {name: one[name] for name in processes.SPACES if name in one}
            if len(known) == len(processes.SPACES):
                self.spaces[identity] = known
            if "threads" not in one:
                continue
            if "shared" in one:
                self.shared[identity] = one["shared"]
            elif identity in self.shared:
                one["shared"] = self.shared[identity]
            if "waits" in asked[pid]:
                self.undecoded.discard(identity)
            elif one["threads"] != self.tables.get(identity):
                self.undecoded.add(identity)
            self.tables[identity] = one["threads"]
        self.undecoded &= alive


def _children_s() -> float:
    """CPU seconds of all children that have ended and were waited for, tools too."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def paused_ms(fields: Mapping[str, Any]) -> Dict[str, float]:
    """Milliseconds by process, summed over the steps of a sample."""
    found: Dict[str, float] = {}
    for step in fields.get("deep", ()):
        found[str(step["pid"])] = round(found.get(str(step["pid"]), 0.0) + step["paused_ms"], 1)
    return found


def _cheap(steps: List[str], look: Look) -> bool:
    """Whether a child would cost more than the reading, which never blocks."""
    return set(steps) <= ({"state", "table", "fds"} if look.standard_fds_only else {"state", "table"})


def _here(look: Task) -> Outcome:
    """Do in this process what never blocks."""
    outcome = Outcome("done")
    look(lambda part: outcome.parts.append(to_plain(part)))
    return outcome


def _lost(step: str, reason: str, detail: str, pid: int) -> Dict[str, Any]:
    return {"probe": STEPS[step][0], "reason": reason, "detail": detail, "pid": pid}


def descendants(parents: Mapping[int, int], roots: Iterable[int]) -> Set[int]:
    """The roots, whether they are there or not, and all that descend from them."""
    children: Dict[int, List[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: Set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found
