"""Facts of folders, checkpoints, downloads and lock files, and of the lock file that a member waits for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..model.places import own
from ..model.storage import LockFile, Place, Storage
from .gather import Looked
from .of_host import OfHost, Row
from .of_member import OfMember, path_of

_BATON = re.compile(r"/lock(?:_[^/]*)?$")
ANY = "any"  # the name of a family that means every role
_TEXTS = 64
_WAIT_BY_LOOKING = (
    "stale-lock-file",
    "file-lock",
)  # mechanisms that may wait for a file to go away without having it open


def _places(of: Callable[[Place], Any], fold: Callable[[list[Any]], Any]) -> Callable[[OfHost, str], Any]:
    """Something of the places of a role, folded; None where the launch has no such place."""

    def get(c: OfHost, name: str) -> Any:
        places = c.rows(c.looked.view.history.storage.places)
        if places is None:
            return c.missing("storage")
        chosen = [one for one in places if name in (one.role, ANY)]
        known = [of(one) for one in chosen if of(one) is not None]
        return fold(known) if known else c.missing("storage") if chosen else None

    return get


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({one for one in values if one}))[:_TEXTS]


def _part(
    of: Callable[[Storage], Sequence[Row] | None], then: Callable[[list[Row]], Any]
) -> Callable[[OfHost, str], Any]:
    def get(c: OfHost, _: str) -> Any:
        found = c.rows(of(c.looked.view.history.storage))
        return then(found) if found is not None else c.missing("storage")

    return get


def _partial_silence(c: OfHost, _: str) -> Any:
    found, last = c.rows(c.looked.view.history.storage.partials), c.looked.view.history.last
    if found is None or last is None:
        return c.missing("storage")
    return max(0.0, last.at - max(one.changed for one in found)) if found else None


def _locks(keep: Callable[[LockFile], bool | None], of: Callable[[Looked, list[LockFile]], Any]) -> Any:
    """Something of the lock files of a role for which `keep` is true; missing where it is unknown for one and true for none."""

    def get(c: OfHost, name: str) -> Any:
        found = c.rows(c.looked.view.history.storage.lock_files)
        if found is None:
            return c.missing("storage")
        judged = [(keep(one), one) for one in found if name in (one.role, ANY)]
        kept = [one for holds, one in judged if holds]
        if not kept and any(holds is None for holds, _ in judged):
            return c.missing("storage", reason="whether its locks are held could not be seen")
        return of(c.looked, kept)

    return get


def idle(lock: LockFile) -> bool | None:
    """Whether a lock file is not locked by the kernel and no member has it open. Flocks leave such files behind."""
    if lock.locked or lock.holders or lock.pids:
        return False
    return True if lock.locked is False else None


def left(lock: LockFile) -> bool | None:
    """Whether a lock file locks by being there, and nobody is behind it any more.

    That is so of a baton (`lock`, `lock_…`), whose writer nobody knows, and of a soft lock that names an owner that has ended.
    """
    if lock.owner is None:
        return idle(lock) if _BATON.search(lock.path) else False
    return None if lock.owner_alive is None else idle(lock) and not lock.owner_alive


def _paths(_: Looked, locks: list[LockFile]) -> tuple[str, ...]:
    return _texts(one.path for one in locks)


def _oldest(c: Looked, locks: list[LockFile]) -> Any:
    last = c.view.history.last
    return max(0.0, last.at - min(one.changed for one in locks)) if locks and last else None


def lock_of(c: OfMember) -> LockFile | None:
    """The lock file that a member waits for: by its path, by who has it open, else the only one that was left behind."""
    files = c.looked.view.history.storage.lock_files or ()
    mechanism = c.picture.mechanism if c.picture else ""
    if mechanism not in _WAIT_BY_LOOKING:
        return None
    path = path_of(c)
    found = [one for one in files if one.path == path] or [one for one in files if c.process.pid in one.pids]
    if not found and path is None:
        found = [one for one in files if left(one)]
    return found[0] if len(found) == 1 else None


def _own_lock(of: Callable[[OfMember, LockFile], Any]) -> Callable[[OfMember, str], Any]:
    def get(c: OfMember, _: str) -> Any:
        lock = lock_of(c)
        found = of(c, lock) if lock else None
        return found if found is not None else c.missing("storage", "the lock file that it waits for is not known")

    return get


def _age(c: OfMember, lock: LockFile) -> float | None:
    last = c.looked.view.history.last
    return max(0.0, last.at - lock.changed) if last else None


def _older(c: OfMember, lock: LockFile) -> bool | None:
    """Whether it was last changed before the launch began."""
    last, root = c.looked.view.history.last, c.looked.process(c.looked.view.launch.root)
    return lock.changed < last.at - (last.boot - root.start) if last and root else None


def _holders(c: OfMember, _: str) -> Any:
    """Who holds the lock that it waits for: by the edges, which know every kernel lock, then by the lock file."""
    mine = c.process.pid
    pids = {pid for edge in c.looked.waits.get(mine, ()) if edge.via in ("flock", "fcntl") for pid, _ in edge.targets}
    lock = lock_of(c)
    pids |= set(lock.holders) if lock else set()
    if pids - {mine}:
        members = c.looked.view.launch.members
        return _texts(
            members[pid].who if pid in members else f"process {own(pid)} outside of the launch" for pid in pids - {mine}
        )
    return () if lock is not None and left(lock) else c.missing("storage")


HOST = {
    "place_paths": _places(lambda one: one.path, _texts), "place_free": _places(lambda one: one.free, min),
    "place_inodes_free": _places(lambda one: one.inodes_free if one.inodes else None, min),
    "place_kinds": _places(lambda one: one.kind, _texts), "place_remote": _places(lambda one: one.remote, any),
    "place_read_only": _places(lambda one: one.read_only, any),
    "place_silent": _places(lambda one: None if one.answers is None else not one.answers, any),
    "checkpoint_missing": _part(lambda one: one.checkpoints, lambda rows: max((one.missing for one in rows), default=None)),
    "checkpoint_bytes": _part(lambda one: one.checkpoints, lambda rows: max((one.bytes for one in rows), default=None)),
    "checkpoint_formats": _part(lambda one: one.checkpoints, lambda rows: _texts(one.format for one in rows)),
    "partials": _part(lambda one: one.partials, lambda rows: _texts(one.path for one in rows)),
    "partial_silence": _partial_silence, "left_locks": _locks(left, _paths), "left_lock_age": _locks(left, _oldest),
    "idle_locks": _locks(idle, _paths),
    "held_locks": _locks(lambda one: one.locked, _paths),
}  # fmt: skip
MEMBER = {
    "lock_age": _own_lock(_age), "lock_older": _own_lock(_older),
    "lock_held": _own_lock(lambda _, lock: lock.locked),
    "lock_owner_alive": _own_lock(lambda _, lock: lock.owner_alive), "lock_holders": _holders,
    "libraries": lambda c, _: c.process.libraries if c.process.libraries is not None else c.missing("storage"),
    "weights_mapped": lambda c, _: c.process.weights if c.process.weights is not None else c.missing("storage"),
}  # fmt: skip
