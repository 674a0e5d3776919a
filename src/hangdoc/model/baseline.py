"""A baseline, `hangdoc.baseline/1`: what good starts of one configuration looked like, each run's figures kept.

Times are seconds, sizes bytes. Every list named "by run" has one entry for each run, in the order of `runs`; None where
that run did not show it. Offsets count from the start of the root process, in a run taken from a log alone from the
first line that carries a time. Standard library only and Python 3.8.
"""

from dataclasses import field
from typing import Dict, Optional, Tuple

from .frozen import dataclass
from .words import Phase, Role

BASELINE_SCHEMA = "hangdoc.baseline/1"
PER_RUN = Tuple[Optional[float], ...]
CACHES = ("warm", "cold", "unknown", "mixed")


@dataclass(frozen=True)
class Hardware:
    """What the start ran on. Empty or None where it is not known."""

    accelerator: str = ""  # "none" for a start on CPUs, "nvidia", or a model's name in published figures
    accelerators: Optional[int] = None
    cpus: Optional[int] = None
    memory: Optional[int] = None
    arch: str = ""


@dataclass(frozen=True)
class Configuration:
    """What was started."""

    engine: str
    version: Optional[str] = None
    model: Optional[str] = None  # a name; of a path only its last part
    args: Dict[str, str] = field(default_factory=dict)  # only arguments that matter for a start (an allow-list)
    hardware: Hardware = Hardware()
    hosts: int = 1
    caches: str = "unknown"  # one of CACHES: those of compilers, the page cache, the model on disk
    weight_bytes: Optional[int] = None  # of the checkpoint


@dataclass(frozen=True)
class Provenance:
    """Where the figures come from."""

    kind: str = "recorded"  # recorded | published
    source: str = ""  # published: the address
    note: str = ""


@dataclass(frozen=True)
class Run:
    """One good start."""

    at: str = ""  # day, ISO 8601
    by: str = "start"  # start | case | log | running | published
    partial: bool = False  # the beginning was not watched: times are those of its log lines
    ready_s: Optional[float] = None
    lines: Optional[int] = None  # of its logs, when it was ready
    bytes: Optional[int] = None
    caches: str = "unknown"
    compiled: Optional[int] = None  # compilers that were seen, at least
    read_bytes: Optional[int] = None  # from storage, by all members that were needed
    downloaded: Optional[bool] = None
    hangdoc: str = ""  # version that recorded it


@dataclass(frozen=True)
class PhaseTimes:
    """One phase. The launch is in it from the moment that its foremost member enters it until one enters a later one."""

    id: Phase
    start_s: PER_RUN = ()  # by run
    duration_s: PER_RUN = ()  # by run
    p50_s: Optional[float] = None
    p95_s: Optional[float] = None
    # by member ("scheduler TP0"), by run: from its own first mark of this phase to its next mark of a later one
    dwell_s: Dict[str, PER_RUN] = field(default_factory=dict)
    lines: Tuple[Optional[int], ...] = ()  # by run, log lines at its end
    bytes: Tuple[Optional[int], ...] = ()
    rss: Tuple[Optional[int], ...] = ()  # by run, resident bytes of all members at its end


@dataclass(frozen=True)
class BaselineLine:
    """One kind of log line: its text with the volatile words out."""

    text: str
    role: Optional[Role] = None
    first_s: PER_RUN = ()  # by run, when it first came; None in a run that did not print it


@dataclass(frozen=True)
class RoleCount:
    """Processes of one role when the start was ready."""

    role: Role
    processes: int = 1
    threads: Tuple[Optional[int], ...] = ()  # by run, of the largest of them


@dataclass(frozen=True)
class WaitSignature:
    """How a member that does not move looks in a good start: what idles in every good start is held against nobody."""

    role: Role
    phase: Phase
    mechanism: str
    function: str = ""  # innermost Python function


@dataclass(frozen=True)
class Baseline:
    """Good starts of one configuration."""

    name: str
    configuration: Configuration
    provenance: Provenance = Provenance()
    runs: Tuple[Run, ...] = ()
    phases: Tuple[PhaseTimes, ...] = ()
    lines: Tuple[BaselineLine, ...] = ()
    processes: Tuple[RoleCount, ...] = ()
    ports: Dict[str, int] = field(default_factory=dict)  # role -> listening TCP ports when ready
    waits: Tuple[WaitSignature, ...] = ()
    schema: str = BASELINE_SCHEMA
