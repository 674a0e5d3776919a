"""Files as one process sees them: below its root, links followed there, and nothing on a mount that does not answer.

An absolute link below `/proc/PID/root` would lead into our own root, so links are followed here, one name at a time.
Local file systems are taken to answer: whoever uses this does so in a disposable child.
"""

from __future__ import annotations

import errno
import os
import posixpath
from typing import Dict, List, Optional, Set

from . import mounts
from .reading import below

LINKS = 40  # followed in one path, as the kernel does


class Untouched(OSError):
    """A path that is left alone: its file system does not answer, or would be mounted by touching it."""


class Inside:
    """The files of one process. Making it asks every remote mount of its namespace whether it answers (0.5 s at most)."""

    def __init__(self, root: str, pid: int) -> None:
        self.root = root
        self.pid = pid
        self.mounts = mounts.of_process(root, pid)
        remote = {one.device: below(root, pid, one.point) for one in self.mounts if one.remote}
        asked = sorted(remote.items())[: mounts.LIMIT]
        dead = set(mounts.dead(asked))
        unknown = set(remote) - {device for device, _ in asked}
        self.silent: Set[str] = {device for device, path in asked if path in dead} | unknown
        self._links: Dict[str, Optional[str]] = {"/": None}
        self._points = {one.point for one in self.mounts}

    def mount(self, path: str) -> Optional[mounts.Mount]:
        """The mount that a path without links lies on."""
        return mounts.mount_of(path, self.mounts)

    def check(self, path: str) -> None:
        """Raise Untouched for a path (without links) that must not be touched."""
        one = self.mount(path)
        if one is not None and one.device in self.silent:
            raise Untouched(errno.ETIMEDOUT, f"{one.point} does not answer", path)
        if one is not None and one.kind == "autofs":
            raise Untouched(errno.EOPNOTSUPP, f"{one.point} would be mounted by looking", path)

    def real(self, path: str) -> str:
        """The path with all its links followed. Raises Untouched, or OSError as lstat(2) does."""
        pending = path.split("/")[::-1]
        done, links = "/", 0
        while pending:
            part = pending.pop()
            if part == "..":
                done = posixpath.dirname(done)
            if part in ("", ".", ".."):
                continue
            here = posixpath.join(done, part)
            target = self._link(here)
            if target is None:
                done = here
                continue
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            pending += target.split("/")[::-1]
            if target.startswith("/"):
                done = "/"
        return done

    def nearest(self, path: str) -> str:
        """`real` of the path, or of the nearest folder above it that exists."""
        while True:
            try:
                return self.real(path)
            except (FileNotFoundError, NotADirectoryError):
                if path in ("/", ""):
                    return "/"
                path = posixpath.dirname(path.rstrip("/"))

    def outer(self, path: str) -> str:
        """Where we reach a path without links from here."""
        return below(self.root, self.pid, path)

    def crossing(self, folder: str) -> bool:
        """Whether a folder (without links) is a mount point: a walk of a cache does not go on there."""
        return folder in self._points

    def _link(self, path: str) -> Optional[str]:
        """Text of a link, None for what is none."""
        if path in self._links:
            return self._links[path]
        self.check(path)
        found: Optional[str] = None
        try:
            found = os.readlink(self.outer(path))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        if len(self._links) < 1 << 16:
            self._links[path] = found
        return found


def of(root: str, pids: List[int]) -> Optional[Inside]:
    """The view of the first of these processes whose files may be reached; they are taken to see the same."""
    for pid in pids:
        try:
            os.lstat(f"{root}/{pid}/root/.")
        except OSError:
            continue
        return Inside(root, pid)
    return None
