"""Who reads a pipe, and into which file it goes from there: through filters such as tee, or a container runtime."""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Collection, Dict, List, Optional, Tuple

from ..model.frozen import dataclass
from .reading import text_or_none

INIT_PID_NS = "pid:[4026531836]"  # PROC_PID_INIT_INO, linux/proc_ns.h
RUNTIMES = ("containerd-shim", "containerd", "conmon", "dockerd", "docker-containe", "crio")  # comm, cut at 15
NEAR = 200  # pids next to the writer's
HOPS = 4  # filters behind each other that are followed
CONTAINER_ID = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
POD_ID = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
# Where runtimes keep the output of a container; %s is its id.
CONTAINER_LOGS = (
    "/var/lib/docker/containers/%s/%s-json.log",
    "/var/log/containers/*-%s.log",
    "/var/lib/containers/storage/overlay-containers/%s/userdata/ctr.log",
)
HOST_ROOT = ""  # tests put a folder before the paths above


@dataclass(frozen=True)
class Holder:
    """A process that has one of the wanted pipes open for reading."""

    pid: int
    fd: int


@dataclass(frozen=True)
class Written:
    """A file that a process has open for writing."""

    pid: int
    fd: int
    path: str


def _fds(root: str, pid: int) -> List[Tuple[int, str]]:
    """(fd, text of its link). Raises OSError where the table may not be read."""
    found = []
    with os.scandir(f"{root}/{pid}/fd") as entries:
        for entry in entries:
            try:
                found.append((int(entry.name), os.readlink(entry.path)))
            except (OSError, ValueError):
                continue
    return found


def _opened(root: str, pid: int, fd: int) -> Tuple[bool, bool]:
    """(for reading, for writing): the permission bits of the link, which lstat reads without touching the file."""
    try:
        mode = os.lstat(f"{root}/{pid}/fd/{fd}").st_mode
    except OSError:
        return False, False
    return bool(mode & 0o400), bool(mode & 0o200)


def _order(root: str, near: int) -> Tuple[List[int], int]:
    """(every pid, the likely readers first; how many of these): ancestors of `near`, then those born next to it."""
    ancestors: List[int] = []
    pid = near
    while pid > 1 and len(ancestors) < 32:
        fields = (text_or_none(f"{root}/{pid}/stat", 4096) or "").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
        ancestors.append(pid)
    pids = sorted((int(name) for name in os.listdir(root) if name.isdigit()), key=lambda pid: abs(pid - near))
    first = list(dict.fromkeys([pid for pid in ancestors if pid > 0] + pids[:NEAR]))
    known = set(first)
    return first + [pid for pid in pids if pid not in known], len(first)


def find(root: str, targets: Collection[str], near: int, budget_s: float = 0.5) -> Tuple[Dict[str, List[Holder]], bool]:
    """Readers of the pipes whose link text is in `targets`, and whether every process of the host was looked at.

    Starts with the ancestors of `near` and the pids next to it, for a pipeline's processes are born together, and
    ends there when each pipe has a reader: the tables of all processes of a large host cost half a second.
    """
    found: Dict[str, List[Holder]] = {target: [] for target in targets}
    end = time.monotonic() + budget_s
    complete = os.readlink("/proc/self/ns/pid") == INIT_PID_NS
    pids, likely = _order(root, near)
    for number, pid in enumerate(pids):
        if time.monotonic() > end or (
            number >= likely and all(any(one.pid != near for one in holders) for holders in found.values())
        ):
            return found, False
        try:
            table = _fds(root, pid)
        except PermissionError:
            complete = False
            continue
        except OSError:
            continue
        for fd, target in table:
            if target in found and _opened(root, pid, fd)[0]:
                found[target].append(Holder(pid, fd))
    return found, complete


def choose(holders: List[Holder], members: Collection[int]) -> Optional[Holder]:
    """The one that is meant to read: a filter (its standard input) that is no member first, else any non-member."""
    order = sorted(holders, key=lambda one: (one.pid in members, one.fd != 0, one.pid))
    return order[0] if order else None


def comm(root: str, pid: int) -> str:
    """Name of a process, empty when it is gone."""
    return (text_or_none(f"{root}/{pid}/comm", 64) or "").strip()


def state(root: str, pid: int) -> str:
    """State letter of a process, empty when it is gone."""
    return (text_or_none(f"{root}/{pid}/stat", 4096) or "").rpartition(")")[2].strip()[:1]


def _written(root: str, pid: int) -> Tuple[List[Written], Optional[str]]:
    """(files that a filter writes its input to, the pipe that its standard output is)."""
    try:
        table = _fds(root, pid)
    except OSError:
        return [], None
    files = []
    for fd, target in sorted(table):
        is_file = target.startswith("/") and not target.startswith(("/dev/", "/memfd:", "/proc/"))
        # what it complains to is not where its input goes
        if is_file and fd != 2 and _opened(root, pid, fd)[1]:
            files.append(Written(pid, fd, target))
    output = dict(table).get(1, "")
    return files[:8], output if output.startswith("pipe:[") else None


def follow(root: str, reader: Holder, members: Collection[int]) -> List[Written]:
    """Files that what goes into the pipe ends up in, through at most `HOPS` filters; nothing when that is not plain.

    A filter is a process, not of the launch, that has the pipe as its standard input; a runtime's monitor counts too.
    """
    for _ in range(HOPS):
        filtering = reader.fd == 0 or comm(root, reader.pid) == "conmon"
        if reader.pid in members or not filtering:
            return []
        files, output = _written(root, reader.pid)
        if files or output is None:
            return files
        behind, _ = find(root, [output], reader.pid, 0.2)
        following = choose(behind[output], members)
        if following is None:
            return []
        reader = following
    return []


def container_logs(cgroup: str) -> List[str]:
    """Log files on this host of the container that the text of `/proc/PID/cgroup` names."""
    ids = CONTAINER_ID.findall(cgroup)
    for pattern in CONTAINER_LOGS if ids else ():
        found = sorted(glob.glob(HOST_ROOT + pattern.replace("%s", ids[-1])))
        if found:
            return found[-1:]
    pods = POD_ID.findall(cgroup)
    if pods:
        folders = glob.glob(f"{HOST_ROOT}/var/log/pods/*_{pods[-1].replace('_', '-')}/*/")
        if len(folders) == 1:  # with several containers nothing says which one it is
            return sorted(glob.glob(folders[0] + "*.log"), key=lambda path: (len(path), path))[-1:]
    return []
