"""Mounts that may not answer: which ones there are, and whether they do, without ever waiting for one."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
import zlib
from typing import Dict, Iterable, List, Sequence, Set, Tuple

from ..model.frozen import dataclass
from .reading import text, text_or_none

_OCTAL = re.compile(r"\\([0-7]{3})")  # compiled here once: a disposable child would do it each time
# File systems whose server is another machine or a program: those that can stop answering.
REMOTE = re.compile(
    r"(nfs4?|cifs|smb3|smbfs|ceph|9p|lustre|gpfs|beegfs|beegfs_nodev|afs|ocfs2|gfs2|orangefs|wekafs|glusterfs|vboxsf"
    r"|virtiofs|fuse|fuse\..+|coda|ncpfs|pvfs2|davfs|panfs|quobyte)\Z"
)
LIMIT = 64  # mounts probed


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo, proc_pid_mountinfo(5)."""

    point: str
    kind: str
    device: str  # major:minor
    base: str  # which part of the file system is mounted here
    options: str  # super options: a v1 cgroup's controllers are among them
    source: str = ""  # what is mounted: a device, "server:/export"
    flags: str = ""  # options of this mount point: "rw,nosuid"

    @property
    def remote(self) -> bool:
        """Whether another machine or a program serves it."""
        return REMOTE.match(self.kind) is not None


def unescape(field: str) -> str:
    """Octal escapes of mountinfo (blank, tab, line end, backslash) resolved."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), field) if "\\" in field else field


def parse(mountinfo: str) -> List[Mount]:
    """Mounts in the order of the file; lines of another form are passed over. Pure."""
    mounts = []
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if dash and len(before) >= 6 and len(after) >= 3:
            mounts.append(
                Mount(
                    unescape(before[4]), after[0], before[2], unescape(before[3]), after[2],
                    unescape(after[1]), before[5],
                )
            )  # fmt: skip
    return mounts


def of_process(root: str, pid: int) -> List[Mount]:
    """Mounts of the namespace of `pid`, nothing when they may not be read. Never blocks."""
    return parse(text_or_none(f"{root}/{pid}/mountinfo", 1 << 24) or "")


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that `path` is on: the longest mount point above it, the last one where several are stacked. Pure."""
    best = None
    for one in mounts:
        inside = one.point in ("/", path) or path.startswith(one.point + "/")
        if inside and (best is None or len(one.point) >= len(best.point)):
            best = one
    return best


def _name(device: str) -> str:
    """What a prober calls itself, so that the next sample finds it when it is still stuck. At most 15 characters."""
    return f"hd-mnt-{zlib.crc32(device.encode()):08x}"


def _still_stuck() -> Set[str]:
    """Names of earlier probers that never came back: a kill does not reach them while the file system is silent.

    One that did keeps its name as a zombie, for ever where the first process of a container does not reap.
    """
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            name = (text_or_none(f"/proc/{entry}/comm", 64) or "").strip()
            if name.startswith("hd-mnt-"):
                state = (text_or_none(f"/proc/{entry}/stat", 512) or "").rpartition(")")[2][1:2]
                if state not in ("", "Z", "X"):
                    found.add(name)
    return found


def _probe(device: str, path: str) -> Tuple[int, int]:
    """Fork a prober: (its pid, a pipe that ends when it got any answer from the file system)."""
    mine, its = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(mine)
        os.close(its)
        raise
    if pid:
        os.close(its)
        return pid, mine
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        if its != 3:
            os.dup2(its, 3)
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 3:
                with contextlib.suppress(OSError):
                    os.close(fd)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # should nobody be left to kill it
        with open("/proc/self/comm", "w", encoding="ascii") as comm:
            comm.write(_name(device))
        with contextlib.suppress(OSError):  # refused, stale, gone: an answer all the same
            os.statvfs(path)
        os.write(3, b".")
    finally:
        os._exit(0)


def dead(targets: Sequence[Tuple[str, str]], deadline_s: float = 0.5) -> List[str]:
    """Paths of `targets` (device, path) whose file system does not answer statvfs within the deadline.

    Each is asked by a forked child of its own, all at once. Those that do not come back are killed and never waited
    for; as long as one of them exists, its file system is called dead without asking again. Raises OSError where one
    cannot be asked at all.
    """
    if not targets:
        return []
    stuck = _still_stuck()
    silent = [path for device, path in targets if _name(device) in stuck]
    pending: Dict[int, Tuple[int, str]] = {}
    children = []
    try:
        for device, path in targets[:LIMIT]:
            if _name(device) not in stuck:
                pid, pipe = _probe(device, path)
                children.append(pid)
                pending[pipe] = (pid, path)
        end = time.monotonic() + deadline_s
        poller = select.poll()
        for pipe in pending:
            poller.register(pipe, select.POLLIN)
        while pending and time.monotonic() < end:
            for pipe, _ in poller.poll(max(1, int((end - time.monotonic()) * 1000))):
                poller.unregister(pipe)
                os.close(pipe)
                del pending[pipe]
    finally:
        for pipe, (pid, _) in pending.items():
            os.kill(pid, signal.SIGKILL)
            os.close(pipe)
        _reap(children)
    return silent + [path for _, path in pending.values()]


def _reap(children: List[int]) -> None:
    """Collect those that ended, for a moment; a stuck one is left to init."""
    end = time.monotonic() + 0.05
    while children and time.monotonic() < end:
        children = [pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0]
        if children:
            time.sleep(0.002)


def dead_below(root: str, pid: int, paths: Iterable[str], deadline_s: float = 0.5) -> List[str]:
    """Those of `paths` (as `pid` sees them) that lie on a remote mount which does not answer."""
    mounts = of_process(root, pid)
    on = [(path, mount) for path, mount in ((path, mount_of(path, mounts)) for path in paths) if mount and mount.remote]
    points = {mount.device: f"{root}/{pid}/root{mount.point}" for _, mount in on}
    silent = set(dead(sorted(points.items()), deadline_s))
    return [path for path, mount in on if points[mount.device] in silent]


def own() -> List[Mount]:
    """Mounts of our own namespace. Raises OSError."""
    return parse(text("/proc/self/mountinfo", 1 << 24))
