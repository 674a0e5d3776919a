"""Facts about a host that change from look to look. Standard library only and Python 3.8.

`None` always means "not seen". Sizes are bytes.
"""

from dataclasses import field
from typing import Dict, Optional, Tuple

from .frozen import dataclass


@dataclass(frozen=True)
class KernelLine:
    """A line of the kernel log that matters here."""

    at: float  # seconds since boot
    kind: str  # oom xid hung-task
    text: str
    pid: Optional[int] = None


@dataclass(frozen=True)
class Cgroup:
    """One cgroup of a member: what it limits and what it did about it."""

    frozen: Optional[bool] = None
    memory_max: Optional[int] = None
    memory_current: Optional[int] = None
    oom_kills: Optional[int] = None
    cpu_max: Optional[str] = None  # "quota period" of cgroup v2, the same form for v1
    throttled_s: Optional[float] = None
    pids_max: Optional[int] = None  # tightest limit of processes and threads together; None also without a limit
    pids_current: Optional[int] = None  # of the group that has that limit
    cpuset: Optional[str] = None  # CPUs of the group, "0-7"


@dataclass(frozen=True)
class HostFacts:
    """Facts about the host itself."""

    name: str = ""
    boot_id: str = ""
    kernel: str = ""
    arch: str = ""
    cpus: Optional[int] = None
    uptime: Optional[float] = None
    mem_total: Optional[int] = None
    mem_available: Optional[int] = None
    page_cache: Optional[int] = None
    shm_total: Optional[int] = None
    shm_free: Optional[int] = None
    psi: Dict[str, float] = field(default_factory=dict)  # "io.some.avg10" -> percent
    cgroups: Dict[str, Cgroup] = field(default_factory=dict)
    dead_mounts: Tuple[str, ...] = ()  # mount points that did not answer in time
    slow_mounts: Dict[str, str] = field(default_factory=dict)  # network and FUSE mounts -> type
    kernel_log: Tuple[KernelLine, ...] = ()
    yama: Optional[int] = None
    uid: Optional[int] = None
    pid_ns: Optional[int] = None
    net_ns: Optional[int] = None
    container: str = ""  # "docker", "kubernetes", … as far as it can be told
    python: str = ""
