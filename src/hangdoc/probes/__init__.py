"""Read one machine. Standard library only, Python >= 3.8: this half is zipped and sent to hosts.

Each probe is a plain function that takes the root of procfs (tests give another one), returns dataclasses of
`hangdoc.model.sample`, and appends to `unseen` what it could not see. None of them raises for a process that is
gone, denied or strange; which of them may block, and therefore runs in a disposable child, is said in `PROBES`.
"""

from __future__ import annotations

from typing import Dict

# name -> whether it may block on a sick target, so that it runs in a disposable child with a deadline
PROBES: Dict[str, bool] = {
    "scan": True,  # every process of the host: stat, status, and (in children) command lines
    "processes": True,  # members: identity, command line, io, memory, namespaces
    "threads": True,  # members: state, system call, wait channel, futex owners, deadlines
    "fds": True,  # members: what each descriptor is
    "environ": True,  # members: allow-listed variables, limits
    "sockets": True,  # sockets of the members' network namespaces, tcp_info
    "logs": True,  # logs behind fd 1 and 2, from an offset
    "host": True,  # memory, cgroups, mounts, kernel log
    "packages": True,  # versions in the target's site-packages; files that differ from their RECORD
    "stacks": True,  # Python stacks by py-spy --nonblocking
    "glance": True,  # one member: many quick looks at its threads' calls, io and eventfds
    "native": True,  # one member: stacks with native frames by py-spy; pauses it, only with --deep
    "strace": True,  # one member: all its system calls for two seconds; pauses it, only with --deep
    "health": True,  # health paths, in the target's network namespace
}
DEEP = ("glance", "native", "strace")  # of `Ask.deep_pids` only; the last two pause what they look at
