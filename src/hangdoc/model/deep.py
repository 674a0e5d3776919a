"""What many quick looks at one process saw, and what the tools of `--deep` told.

Standard library only and Python 3.8: this module travels to the hosts that are looked at.
"""

from dataclasses import field
from typing import Dict, Optional, Tuple

from .frozen import dataclass

PAUSING = frozenset(("native", "strace"))  # probes that attach a tool


@dataclass(frozen=True)
class Spot:
    """One state in which quick looks found a thread, and in how many of them."""

    count: int
    syscall: Optional[int] = None  # call it was blocked in; None: it ran, or was in no call
    fd: Optional[int] = None  # first argument of a call that takes a descriptor
    target: str = ""  # text of that descriptor's link
    ran: bool = False  # it was on a CPU or waited for one; a call that does not block looks like that, too


@dataclass(frozen=True)
class GlanceThread:
    """One thread over all quick looks. Counters are what was added between the first and the last look."""

    tid: int
    name: str = ""
    spots: Tuple[Spot, ...] = ()  # most frequent first
    user_s: float = 0.0
    system_s: float = 0.0
    reads: Optional[int] = None  # calls of read(2) and its kin, failed ones too; None where `io` is denied
    read_bytes: Optional[int] = None
    writes: Optional[int] = None
    written_bytes: Optional[int] = None


@dataclass(frozen=True)
class Glance:
    """Many quick looks at the threads of one process, none of which stops it."""

    looks: int
    seconds: float
    threads: Tuple[GlanceThread, ...] = ()  # those that did something, and the main one
    eventfds: Dict[int, int] = field(default_factory=dict)  # fd -> what its counter changed by; 0: up and down again


@dataclass(frozen=True)
class TracedCall:
    """Calls of one thread that were alike, as strace counted them."""

    tid: int
    name: str
    count: int
    fd: Optional[int] = None
    target: str = ""  # text of that descriptor's link
    size: Optional[int] = None  # bytes asked for, where all of them were equal
    error: str = ""  # errno's name, where they failed


@dataclass(frozen=True)
class Trace:
    """Every system call of one process for a short time."""

    seconds: float
    calls: Tuple[TracedCall, ...] = ()  # most frequent first
    cut: bool = False  # there were more than are listed


@dataclass(frozen=True)
class DeepStep:
    """One tool that was attached to one process, and what that did to it."""

    pid: int
    probe: str  # native | strace
    wall_s: float
    paused_ms: float
    measured: bool  # True: from looks at the state of its threads; False: the tool's whole time, an upper bound
    differs: Tuple[str, ...] = ()  # threads that are not as they were: "thread 4712 is traced by 99"
    interrupted: Tuple[str, ...] = ()  # calls that an attach may have ended early: "thread 4712: epoll_wait"
