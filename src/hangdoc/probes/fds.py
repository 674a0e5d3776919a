"""Open file descriptors by readlink and fdinfo; never by stat or open (docs/safety.md)."""

from __future__ import annotations

import errno
import os
import re
from typing import Dict, List, Optional, Sequence, Set, Tuple

from ..model.sample import Fd, Unseen
from .procfs import Folder, say, text

_INODE = re.compile(r"^(pipe|socket):\[(\d+)\]$")
_ANONYMOUS = {
    "anon_inode:[eventfd]": "eventfd",
    "anon_inode:[eventpoll]": "epoll",
    "anon_inode:inotify": "inotify",
    "anon_inode:[inotify]": "inotify",
    "anon_inode:[pidfd]": "pidfd",
    "pidfd:[pidfd]": "pidfd",
}
_TERMINAL = re.compile(r"^/dev/(?:pts/\d+|tty\w*|console|ptmx)$")
_ORDINARY = ("/dev/shm/", "/dev/mqueue/", "/dev/hugepages/")  # noqa: S108 - prefixes of links, nothing is written
_BARE = ("device", "socket")  # whose fdinfo is not read
_INFO_LIMIT = 1 << 18  # bytes of one fdinfo; an epoll set of thousands is the largest


def kind_of(target: str) -> Tuple[str, Optional[int]]:
    """(kind, inode where the link names one) from the text of a descriptor's link."""
    found = _INODE.match(target)
    if found:
        return found.group(1), int(found.group(2))
    if target in _ANONYMOUS:
        return _ANONYMOUS[target], None
    if target.startswith("/memfd:"):
        return "memfd", None
    if _TERMINAL.match(target):
        return "terminal", None
    if target.startswith("/dev/") and not target.startswith(_ORDINARY):
        return "device", None
    return ("file" if target.startswith("/") else "other"), None


def parse_info(raw: bytes) -> Dict[str, List[str]]:
    """Lines of `fdinfo`: name -> values, in order (epoll's `tfd` and `lock` stand on many lines)."""
    found: Dict[str, List[str]] = {}
    for line in text(raw).split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def _first(info: Dict[str, List[str]], name: str, base: int = 10) -> Optional[int]:
    try:
        return int(info[name][0].split()[0], base)
    except (KeyError, IndexError, ValueError):
        return None


def describe(number: int, target: str, info: Optional[Dict[str, List[str]]]) -> Fd:
    """One descriptor from its link and its fdinfo (None where that was not read)."""
    kind, inode = kind_of(target)
    if info is None:
        return Fd(number, kind, target, inode)
    flags = _first(info, "flags", 8)
    if kind == "file" and flags is not None and flags & os.O_DIRECTORY:
        kind = "dir"
    watched = []
    for value in info.get("tfd", ()):
        words = value.split()
        if words and words[0].isdigit():
            watched.append(int(words[0]))
    return Fd(
        fd=number,
        kind=kind,
        target=target,
        inode=inode if inode is not None else _first(info, "ino"),
        flags=flags,
        pos=_first(info, "pos"),
        watched=tuple(watched),
        eventfd_id=_first(info, "eventfd-id"),
        eventfd_count=_first(info, "eventfd-count", 16),
        pidfd=_first(info, "Pid"),
        locks=tuple(info.get("lock", ())),
    )


def read(
    root: str, pid: int, unseen: List[Unseen], limit: int = 4096, only: Sequence[int] = (), *, files: bool = False
) -> Dict[int, Fd]:
    """Descriptors of a process, at most `limit` of them (more is said in `unseen`); of `only` when it is given. With
    `files`, only the fdinfo of files is read, and the others have what their link tells.

    The fdinfo of a device is never read: it is written by the device's driver, which may be the one that is wedged. That of
    a socket tells nothing that its link does not.
    """
    found: Dict[int, Fd] = {}
    try:
        with Folder(root, pid) as folder:
            numbers = list(only) or folder.numbers("fd")
            if len(numbers) > limit:
                unseen.append(Unseen("fds", "skipped", f"{len(numbers)} descriptors, the first {limit} were read", pid))
            for number in numbers[:limit]:
                one = _read_one(folder, number, files=files)
                if one is not None:
                    found[number] = one
    except OSError as error:
        say(unseen, "fds", error, "fd", pid)
    return found


def sockets_of(root: str, pid: int) -> Set[int]:
    """Inodes of the sockets that a process has open, by the links alone; none of a process that is gone."""
    found: Set[int] = set()
    try:
        with Folder(root, pid) as folder:
            for number in folder.numbers("fd"):
                try:
                    kind, inode = kind_of(folder.link(f"fd/{number}"))
                except FileNotFoundError:  # closed meanwhile
                    continue
                if kind == "socket" and inode is not None:
                    found.add(inode)
    except OSError:
        return found
    return found


def _read_one(folder: Folder, number: int, *, files: bool) -> Optional[Fd]:
    try:
        target = folder.link(f"fd/{number}")
        kind, _ = kind_of(target)
        bare = kind != "file" if files else kind in _BARE
        info = None if bare else parse_info(folder.read(f"fdinfo/{number}", _INFO_LIMIT))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            return None  # closed meanwhile, or the process ended
        raise
    return describe(number, target, info)
