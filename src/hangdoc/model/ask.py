"""What a session asks of the agent on a host, one JSON line each. Standard library only and Python 3.8."""

from dataclasses import field
from typing import Dict, List, Optional, Tuple

from .frozen import dataclass


@dataclass(frozen=True)
class HealthAsk:
    """One health path to ask, in the network namespace of `pid`."""

    pid: int
    port: int
    path: str


@dataclass(frozen=True)
class Ask:
    """One tick. `scan` lists every process of the host; the other probes look at `pids` and their descendants."""

    id: int
    probes: Tuple[str, ...]  # names of hangdoc.probes.PROBES
    pids: Tuple[int, ...] = ()  # members known so far; their descendants are always added
    needed: Optional[Tuple[int, ...]] = None  # who is read anew each time; of others, who spent CPU time; None = all
    stack_pids: Tuple[int, ...] = ()  # members whose Python stacks are wanted; empty = all members
    thread_pids: Tuple[int, ...] = ()  # members whose threads, fds are wanted; empty = all members
    wait_pids: Optional[Tuple[int, ...]] = None  # of `thread_pids`, whose blocked calls are decoded; None = all of them
    deep_pids: Tuple[int, ...] = ()  # members that `glance`, `native` and `strace` look at; empty = none
    logs: Tuple[str, ...] = ()  # further log files (--log)
    log_offsets: Dict[str, int] = field(default_factory=dict)  # path -> first byte wanted
    health: List[HealthAsk] = field(default_factory=list)
    check_files: Tuple[str, ...] = ()  # files on stuck stacks whose hash is compared with RECORD (probe `packages`)
    pyspy: Optional[str] = None  # a py-spy to use when the target has none
    deadline_s: float = 5.0  # for the whole tick
    together: bool = False  # one of many: a standing child may do all of it, for as long as nothing blocks
