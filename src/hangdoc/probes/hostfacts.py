"""Facts about the host: memory, cgroups, mounts that do not answer, shared memory, pressure, kernel log."""

from __future__ import annotations

import os
import platform
import socket
from typing import Dict, List, Optional, Tuple

from ..model.sample import HostFacts, KernelLine, Process, Unseen
from . import cgroups, kmsg, mounts
from .namespaces import net_ns
from .reading import number, reason, text_or_none

PRESSURE = ("cpu", "io", "memory")
SHM = "/dev/shm"  # noqa: S108


def read(root: str, members: Dict[int, Process], unseen: List[Unseen]) -> HostFacts:
    """Facts about the host, with the cgroups that the members are in.

    Mounts served by other machines or programs are asked by forked children with a deadline of 0.5 s, all at once;
    nothing else here can block. Sizes are bytes, `psi` per cent, `kernel_log` young lines only.
    """
    memory = meminfo(text_or_none(f"{root}/meminfo") or "")
    slow, dead = _mounts(root, members)
    shm_total, shm_free = _shm(root, members)
    unseen.extend(Unseen("host", "timed-out", f"mount {point} did not answer within 0.5 s") for point in dead)
    return HostFacts(
        name=socket.gethostname(),
        boot_id=(text_or_none(f"{root}/sys/kernel/random/boot_id") or "").strip(),
        kernel=platform.release(),
        arch=platform.machine(),
        cpus=os.cpu_count(),
        uptime=_uptime(root),
        mem_total=memory.get("MemTotal"),
        mem_available=memory.get("MemAvailable"),
        page_cache=memory.get("Cached"),
        shm_total=shm_total,
        shm_free=shm_free,
        psi=_pressure(root),
        cgroups=cgroups.read(root, members),
        dead_mounts=tuple(dead),
        slow_mounts=slow,
        kernel_log=_kernel_log(unseen),
        yama=number(f"{root}/sys/kernel/yama/ptrace_scope"),
        uid=os.geteuid(),
        pid_ns=_ns_number("/proc/self/ns/pid"),
        net_ns=net_ns(root),
        container=container(text_or_none("/proc/1/cgroup") or "", os.environ.get("KUBERNETES_SERVICE_HOST")),
        python=platform.python_version(),
    )


def meminfo(content: str) -> Dict[str, int]:
    """`/proc/meminfo` in bytes. Pure."""
    found = {}
    for line in content.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return found


def pressure(content: str) -> Dict[str, float]:
    """One file of `/proc/pressure` as "some.avg10" -> per cent. Pure."""
    found = {}
    for line in content.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if name in ("avg10", "avg60"):
                found[f"{kind}.{name}"] = float(value)
    return found


def container(init_cgroup: str, kubernetes: Optional[str]) -> str:
    """The kind of container that we are in ourselves, as far as it can be told; empty outside of one."""
    if kubernetes or "kubepods" in init_cgroup:
        return "kubernetes"
    if os.path.lexists("/.dockerenv"):
        return "docker"
    if os.path.lexists("/run/.containerenv"):
        return "podman"
    for word, kind in (("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")):
        if word in init_cgroup:
            return kind
    return os.environ.get("container", "")[:40]  # noqa: SIM112 (systemd and podman write it so)


def _pressure(root: str) -> Dict[str, float]:
    found = {}
    for what in PRESSURE:
        content = text_or_none(f"{root}/pressure/{what}", 4096) or ""
        found.update({f"{what}.{name}": value for name, value in pressure(content).items()})
    return found


def _uptime(root: str) -> Optional[float]:
    words = (text_or_none(f"{root}/uptime", 64) or "").split()
    return float(words[0]) if words else None


def _ns_number(link: str) -> Optional[int]:
    try:
        return int(os.readlink(link).rpartition("[")[2].rstrip("]"))
    except (OSError, ValueError):
        return None


def _shm(root: str, members: Dict[int, Process]) -> Tuple[Optional[int], Optional[int]]:
    """(size, free) of /dev/shm as the first member sees it (a container has its own), else of ours.

    Asked only where it is a tmpfs: that is memory and answers always.
    """
    views = [(pid, mounts_path(root, pid, SHM)) for pid in sorted(members)] + [(os.getpid(), SHM)]
    path = next((path for pid, path in views if _is_tmpfs(root, pid, SHM)), None)
    try:
        stat = os.statvfs(path or "")
    except OSError:
        return None, None
    return stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail


def _mounts(root: str, members: Dict[int, Process]) -> Tuple[Dict[str, str], List[str]]:
    """(remote mounts that our namespace and those of the members have -> type, those of them that are silent)."""
    views: Dict[Optional[int], int] = {_ns_number("/proc/self/ns/mnt"): os.getpid()}
    for pid, process in sorted(members.items()):
        views.setdefault(process.mnt_ns or _ns_number(f"{root}/{pid}/ns/mnt"), pid)
    kinds: Dict[str, str] = {}
    points: Dict[str, Tuple[str, str]] = {}  # device -> (mount point, path to ask): one question for each file system
    for pid in views.values():
        for one in mounts.of_process(root, pid):
            if one.remote:
                kinds.setdefault(one.point, one.kind)
                points.setdefault(one.device, (one.point, mounts_path(root, pid, one.point)))
    silent = set(mounts.dead([(device, path) for device, (_, path) in points.items()]))
    return kinds, sorted(point for point, path in points.values() if path in silent)


def _is_tmpfs(root: str, pid: int, path: str) -> bool:
    mount = mounts.mount_of(path, mounts.of_process(root, pid))
    return mount is not None and mount.point == path and mount.kind == "tmpfs"


def mounts_path(root: str, pid: int, point: str) -> str:
    """A mount point as we reach it from here."""
    return point if pid == os.getpid() else f"{root}/{pid}/root{point}"


def _kernel_log(unseen: List[Unseen]) -> Tuple[KernelLine, ...]:
    try:
        return tuple(kmsg.read())
    except OSError as error:
        word = "unsupported" if reason(error) == "gone" else reason(error)
        unseen.append(Unseen("host", word, f"kernel log: {error.strerror}"))
        return ()
