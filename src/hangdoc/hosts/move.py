"""A host's sample as it stands in a union: ids carry the host's place, clocks are those of the union. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..model import sample as s
from ..model.deep import DeepStep, Glance, Trace
from ..model.frozen import dataclass, replace
from ..model.places import HostPlace, marked, packed, packed_inode

T = TypeVar("T")


@dataclass(frozen=True)
class Shift:
    """Seconds to add to the clocks of a host, so that they are those of the union."""

    mono: float = 0.0
    boot: float = 0.0
    wall: float = 0.0


def shifted(sample: s.Sample, place: int, places: Sequence[HostPlace], shift: Shift) -> s.Sample:
    """A host's sample with its ids and clocks as they stand in the union."""
    host = places[place].host
    if place == 0 and shift == Shift():
        return replace(sample, unseen=[replace(one, host=host) for one in sample.unseen])
    move = _Move(place, places, shift)
    return replace(
        sample,
        processes={packed(place, pid): move.process(one) for pid, one in sample.processes.items()},
        sockets=[move.socket(one) for one in sample.sockets],
        logs=[move.log(one) for one in sample.logs],
        health=[replace(one, pid=packed(place, one.pid)) for one in sample.health],
        host_facts=move.facts(sample.host_facts) if sample.host_facts is not None else None,
        locks=[f"{host}:{line}" if place else line for line in sample.locks],
        file_locks=[move.file_lock(one) for one in sample.file_locks],
        rings=[replace(one, name=marked(places, place, one.name), pids=move.pids(one.pids)) for one in sample.rings],
        ended=[
            replace(one, pid=packed(place, one.pid), start=one.start + shift.boot, at=one.at + shift.mono)
            for one in sample.ended
        ],
        deep=[move.step(one) for one in sample.deep],
        unseen=[replace(one, host=host, pid=move.maybe(one.pid)) for one in sample.unseen],
        storage=move.storage(sample.storage) if sample.storage is not None else None,
        machine=move.machine(sample.machine) if sample.machine is not None else None,
        networks=[move.network(one) for one in sample.networks] if sample.networks is not None else None,
        cost=replace(
            sample.cost, paused_ms={packed(place, pid): paused for pid, paused in sample.cost.paused_ms.items()}
        ),
    )


@dataclass(frozen=True)
class _Move:
    """What is done to the ids and clocks of one host."""

    place: int
    places: Sequence[HostPlace]
    shift: Shift

    def maybe(self, number: int | None) -> int | None:
        return None if number is None else packed(self.place, number)

    def inode(self, number: int | None) -> int | None:
        return None if number is None else packed_inode(self.place, number)

    def pids(self, pids: Iterable[int]) -> tuple[int, ...]:
        return tuple(packed(self.place, pid) for pid in pids)

    def shared(self, name: str) -> str:
        return f"{self.place}/{name}" if self.place else name

    def process(self, one: s.Process) -> s.Process:
        changes: dict[str, Any] = {
            "pid": packed(self.place, one.pid),
            "ppid": packed(self.place, one.ppid),
            "start": one.start + self.shift.boot,
        }
        for name, change in _FIELDS.items():
            value = getattr(one, name)
            if value is not None:
                changes[name] = change(self, value)
        return replace(one, **changes)

    def threads(self, threads: Mapping[int, s.Thread]) -> dict[int, s.Thread]:
        return {packed(self.place, tid): self.thread(one) for tid, one in threads.items()}

    def thread(self, one: s.Thread) -> s.Thread:
        changes: dict[str, Any] = {"tid": packed(self.place, one.tid)}
        if one.deadline is not None:
            changes["deadline"] = one.deadline + self.shift.mono
        if one.futex is not None:
            shared = self.shared(one.futex.object) if one.futex.object is not None else None
            changes["futex"] = replace(one.futex, owner=self.maybe(one.futex.owner), object=shared)
        return replace(one, **changes)

    def fds(self, fds: Mapping[int, s.Fd]) -> dict[int, s.Fd]:
        return {
            number: replace(
                one, inode=self.inode(one.inode), eventfd_id=self.inode(one.eventfd_id), pidfd=self.maybe(one.pidfd)
            )
            for number, one in fds.items()
        }

    def stacks(self, stacks: Iterable[s.Stack]) -> list[s.Stack]:
        return [replace(one, tid=self.maybe(one.tid)) for one in stacks]

    def glance(self, one: Glance) -> Glance:
        return replace(one, threads=tuple(replace(each, tid=packed(self.place, each.tid)) for each in one.threads))

    def trace(self, one: Trace) -> Trace:
        return replace(one, calls=tuple(replace(each, tid=packed(self.place, each.tid)) for each in one.calls))

    def gil(self, one: s.Gil) -> s.Gil:
        return replace(one, holder=packed(self.place, one.holder), waiters=self.pids(one.waiters))

    def step(self, one: DeepStep) -> DeepStep:
        return replace(one, pid=packed(self.place, one.pid))

    def socket(self, one: s.Socket) -> s.Socket:
        return replace(
            one,
            inode=packed_inode(self.place, one.inode),
            peer=self.inode(one.peer),
            net_ns=packed_inode(self.place, one.net_ns) if one.net_ns is not None else None,
        )

    def log(self, one: s.Log) -> s.Log:
        return replace(
            one,
            path=marked(self.places, self.place, one.path),
            pids=self.pids(one.pids),
            reader=self.maybe(one.reader),
            mtime=one.mtime + self.shift.wall if one.mtime is not None else None,
            place=self.place,
        )

    def file_lock(self, one: s.FileLock) -> s.FileLock:
        return replace(
            one,
            inode=packed_inode(self.place, one.inode),
            path=marked(self.places, self.place, one.path) if one.path is not None else None,
            holders=self.pids(one.holders),
            waiters=self.pids(one.waiters),
            owner=self.maybe(one.owner),
        )

    def storage(self, one: s.Storage) -> s.Storage:
        return s.Storage(
            places=_all(one.places, lambda row: replace(row, path=self.mark(row.path), pids=self.pids(row.pids))),
            checkpoints=_all(
                one.checkpoints, lambda row: replace(row, path=self.mark(row.path), pids=self.pids(row.pids))
            ),
            partials=_all(one.partials, lambda row: replace(row, path=self.mark(row.path), pids=self.pids(row.pids))),
            weights=_all(
                one.weights, lambda row: replace(row, path=self.mark(row.path), pid=packed(self.place, row.pid))
            ),
            lock_files=_all(one.lock_files, self.lock_file),
        )

    def lock_file(self, one: s.LockFile) -> s.LockFile:
        return replace(
            one,
            path=self.mark(one.path),
            inode=packed_inode(self.place, one.inode),
            holders=self.pids(one.holders),
            pids=self.pids(one.pids),
            owner=self.maybe(one.owner),
        )

    def network(self, one: s.Network) -> s.Network:
        return replace(
            one,
            pids=self.pids(one.pids),
            net_ns=self.inode(one.net_ns),
            asked=tuple(replace(row, pids=self.pids(row.pids)) for row in one.asked),
            proxies=tuple(replace(row, pids=self.pids(row.pids)) for row in one.proxies),
        )

    def machine(self, one: s.Machine) -> s.Machine:
        if one.daemons is None:
            return one
        return replace(one, daemons={name: self.pids(pids) for name, pids in one.daemons.items()})

    def facts(self, one: s.HostFacts) -> s.HostFacts:
        return replace(
            one,
            pid_ns=self.inode(one.pid_ns),
            net_ns=self.inode(one.net_ns),
            cgroups={self.mark(name): group for name, group in one.cgroups.items()},
            dead_mounts=tuple(self.mark(point) for point in one.dead_mounts),
            slow_mounts={self.mark(point): kind for point, kind in one.slow_mounts.items()},
            kernel_log=tuple(
                replace(line, at=line.at + self.shift.boot, pid=self.maybe(line.pid)) for line in one.kernel_log
            ),
        )

    def mark(self, path: str) -> str:
        return marked(self.places, self.place, path)


# field of a process -> what becomes of it
_FIELDS: dict[str, Callable[[_Move, Any], Any]] = {
    "tracer": _Move.maybe,
    "cgroup": _Move.mark,
    "pid_ns": _Move.inode,
    "net_ns": _Move.inode,
    "mnt_ns": _Move.inode,
    "threads": _Move.threads,
    "gil": _Move.gil,
    "shared": lambda move, names: tuple(move.shared(name) for name in names),
    "fds": _Move.fds,
    "stacks": _Move.stacks,
    "native": _Move.stacks,
    "glance": _Move.glance,
    "trace": _Move.trace,
    "kernel_stacks": lambda move, found: {packed(move.place, tid): names for tid, names in found.items()},
    "weights": lambda move, paths: tuple(move.mark(path) for path in paths),
}


def _all(rows: tuple[T, ...] | None, change: Callable[[T], T]) -> tuple[T, ...] | None:
    return None if rows is None else tuple(change(row) for row in rows)
