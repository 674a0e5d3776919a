"""Bounded walks of cache folders: what is being downloaded, lock files, and how many files there are."""

from __future__ import annotations

import os
import posixpath
import re
import time
from dataclasses import field
from typing import Dict, Iterator, List, Optional, Tuple

from ..model.frozen import dataclass
from ..model.storage import COMPILED, LockFile, Partial
from . import whereabouts
from .filelocks import Line
from .inside import Inside
from .reading import open_regular

ENTRIES, SECONDS = 20_000, 1.0  # of all walks of one look together
PLACE_ENTRIES, PLACE_SECONDS = 5_000, 0.25  # of one place
ROWS = 128  # lock files, and downloads, that are told
LOCK = re.compile(r"(?:lock|lock_.+|.+\.lock|\.lock.*|.+\.lck)\Z")
# In a folder for temporary files, which is everybody's: the lock of the engines' downloads (hash and model), and others
# that say whose they are.
OF_ENGINES = re.compile(
    r"(?:[0-9a-f]{64}.*|.*(?:vllm|sglang|torch|triton|flashinfer|aiter|hugging|ray_|deep_?gemm).*)\Z"
)
PARTIAL = (".incomplete", ".temp", ".partial", ".aria2")  # how names of unfinished downloads end
OWNER_LIMIT = 512  # bytes of a soft lock
_OWNER = re.compile(r"\s*(?:pid\D{0,4})?(\d{1,10})\b(?:\s+([A-Za-z0-9_.-]{1,253}))?")
# role -> how many folders deep; a hub's locks and blobs are looked for where they are (`hub`)
DEPTH = {
    "torch-extensions": 3, "inductor": 2, "triton": 2, "flashinfer": 5, "deep-gemm": 3, "aiter": 3, "vllm-cache": 4,
    "sglang-cache": 4, "modelscope": 4, "tilelang": 3, "cuda-cache": 3, "temporary": 0, "shm": 1,
    "model": 4,
}  # fmt: skip
HUBS = ("hub", "download-dir")  # these have the layout of huggingface_hub's cache
COUNTED = COMPILED | {"shm"}
_MODELS = 256  # repositories of a hub's cache that are looked into


@dataclass(frozen=False)
class Budget:
    """What may still be spent on walking."""

    entries: int = ENTRIES
    end: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def share(self) -> Budget:
        """What one place may spend of it, so that a large cache leaves something to the others."""
        return Budget(min(PLACE_ENTRIES, self.entries), min(self.end, time.monotonic() + PLACE_SECONDS))

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.entries <= 0 or time.monotonic() > self.end


@dataclass(frozen=False)
class Found:
    """What one walk found. Paths are without links."""

    locks: List[Tuple[str, os.stat_result]] = field(default_factory=list)
    partials: List[Tuple[str, os.stat_result]] = field(default_factory=list)
    files: int = 0
    newest: Optional[float] = None
    cut: bool = False

    def take(self, folder: str, entry: os.DirEntry[str]) -> None:
        """Sort one file of a folder in; one that is gone is none."""
        name = entry.name
        try:
            seen = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if ("lock" in name or name.endswith(".lck")) and LOCK.match(name):
            self.locks.append((posixpath.join(folder, name), seen))
        elif name.endswith(PARTIAL):
            self.partials.append((posixpath.join(folder, name), seen))
        else:
            self.files += 1
            if self.newest is None or seen.st_mtime > self.newest:
                self.newest = seen.st_mtime


def walk(inside: Inside, top: str, depth: int, budget: Budget) -> Found:
    """Look at the regular files below `top` (a path without links), no deeper than `depth` folders, within the budget.

    Links are not followed and mount points not crossed, so the walk stays on the file system that was found to answer.
    """
    found = Found()
    mine = budget.share()
    before = mine.entries
    pending = [(top, 0)]
    while pending and not mine.spent:
        folder, level = pending.pop(0)  # breadth first: locks lie near the top
        for entry, is_folder in _entries(inside, folder, mine):
            if is_folder:
                path = posixpath.join(folder, entry.name)
                if level < depth and not inside.crossing(path):
                    pending.append((path, level + 1))
            elif depth or _lock_of_engines(entry.name):
                found.take(folder, entry)
    found.cut = mine.spent
    budget.entries -= before - mine.entries
    return found


def hub(inside: Inside, top: str, wanted: List[str], budget: Budget) -> Found:
    """Unfinished files of a huggingface_hub cache, and the locks of the repositories `wanted`, of all where none is.

    It keeps the file of every lock that was ever taken: those of other models say nothing of this launch.
    """
    found, mine = Found(), budget.share()
    before = mine.entries
    names = [one.name for one, is_folder in _entries(inside, top, mine) if is_folder]
    models = [one for one in names if one.startswith("models--")]
    models.sort(key=lambda one: (one not in wanted, one))
    told = set(wanted) & set(models)
    for model in models[:_MODELS]:
        if mine.spent:
            break
        locks = [f"{top}/.locks/{model}"] if model in told or not told else []
        for folder in (*locks, f"{top}/{model}/blobs"):
            for one, is_folder in _entries(inside, folder, mine):
                if not is_folder and (LOCK.match(one.name) or one.name.endswith(PARTIAL)):
                    found.take(folder, one)
    found.cut = mine.spent or len(models) > _MODELS
    budget.entries -= before - mine.entries
    return found


def _lock_of_engines(name: str) -> bool:
    return LOCK.match(name) is not None and OF_ENGINES.match(name.lower()) is not None


def _entries(inside: Inside, folder: str, budget: Budget) -> Iterator[Tuple[os.DirEntry[str], bool]]:
    """(entry, whether it is a folder) of the folders and regular files in a folder; nothing for one that may not be read or
    is gone. Most file systems tell the kind with the name, so that a file need not be looked at for it."""
    try:
        with os.scandir(inside.outer(folder)) as entries:
            for entry in entries:
                budget.entries -= 1
                if budget.spent:
                    return
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_folder or entry.is_file(follow_symlinks=False):
                        yield entry, is_folder
                except OSError:
                    continue
    except OSError:
        return


def partial(path: str, seen: os.stat_result, openers: Tuple[int, ...]) -> Partial:
    """One unfinished file."""
    return Partial(path, seen.st_size, seen.st_blocks * 512, seen.st_mtime, whereabouts.repository(path), openers)


def lock_file(
    inside: Inside,
    role: str,
    path: str,
    seen: os.stat_result,
    kernel: Optional[Dict[int, List[Line]]],
    openers: Tuple[int, ...],
    host: Optional[str],
) -> LockFile:
    """One lock file.

    `kernel`: locks of `/proc/locks` by inode, None where that does not tell; `host`: our name, None where the members'
    process numbers are not ours.
    """
    locks = [one for one in (kernel or {}).get(seen.st_ino, ()) if not one.waits]
    same = [one for one in locks if one.device == f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}"]
    held = same or locks  # overlay and btrfs show another device number by stat
    owner, where = _owner(inside, path, seen.st_size)
    alive = None
    if owner is not None and host is not None and where in ("", host):
        alive = os.path.isdir(f"{inside.root}/{owner}")
    return LockFile(
        path=path,
        role=role,
        size=seen.st_size,
        changed=seen.st_mtime,
        inode=seen.st_ino,
        locked=None if kernel is None else bool(held),
        holders=tuple(sorted({one.pid for one in held if one.pid > 0})),
        pids=openers,
        owner=owner,
        owner_host=where,
        owner_alive=alive,
    )


def _owner(inside: Inside, path: str, size: int) -> Tuple[Optional[int], str]:
    """(pid, host) that a soft lock names, as far as it does."""
    if not 0 < size <= OWNER_LIMIT:
        return None, ""
    try:
        handle = open_regular(inside.outer(path))
    except OSError:
        return None, ""
    try:
        found = _OWNER.match(os.read(handle, OWNER_LIMIT).decode("utf-8", "replace"))
    except OSError:
        return None, ""
    finally:
        os.close(handle)
    return (int(found[1]), found[2] or "") if found else (None, "")
