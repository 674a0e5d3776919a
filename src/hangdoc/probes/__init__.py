"""Read one machine. Standard library only, Python >= 3.8: this half is zipped and sent to hosts.

Each probe is a plain function that takes the root of procfs (tests give another one), returns dataclasses of
`hangdoc.model.sample`, and appends to `unseen` what it could not see. None of them raises for a process that is
gone, denied or strange; which steps of them may block, and therefore run in a
disposable child, `agent/look.py` says.
"""

from __future__ import annotations

from typing import Tuple

PROBES: Tuple[str, ...] = (
    "scan",  # every process of the host: stat, status, and (in children) command lines
    "processes",  # members: identity, command line, io, memory, namespaces
    "threads",  # members: state, system call, wait channel, futex owners, deadlines
    "fds",  # members: what each descriptor is
    "environ",  # members: allow-listed variables, limits
    "sockets",  # sockets of the members' network namespaces, tcp_info
    "logs",  # logs behind fd 1 and 2, from an offset
    "host",  # memory, cgroups, mounts, kernel log
    "kernel",  # members: where in the kernel threads in state D are
    "storage",  # folders and file systems of members, weights, downloads, lock files
    "machine",  # kernel options, IOMMU, GPUs and drivers, NUMA, RDMA
    "network",  # interfaces, names, proxies as members see them
    "packages",  # versions in the target's site-packages; files that differ from their RECORD
    "stacks",  # Python stacks by py-spy --nonblocking
    "glance",  # one member: many quick looks at its threads' calls, io and eventfds
    "native",  # one member: stacks with native frames by py-spy; pauses it, only with --deep
    "strace",  # one member: all its system calls for two seconds; pauses it, only with --deep
    "health",  # health paths, in the target's network namespace
)
DEEP = ("glance", "native", "strace")  # of `Ask.deep_pids` only; the last two pause what they look at
