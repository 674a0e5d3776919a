"""The report `hangdoc.report/1`: what `--json` prints. Fields are added, never renamed.

Times are seconds unless the name says otherwise, sizes are bytes. Standard library only and Python 3.8.
"""

from dataclasses import field
from typing import Dict, List, Optional

from .frozen import dataclass
from .words import Certainty, LogVia, Mechanism, Phase, ProgressClass, Role, UnseenReason, Verdict, Via

REPORT_SCHEMA = "hangdoc.report/1"


@dataclass(frozen=True)
class About:
    """Who made the report, and from what."""

    version: str
    at: float  # wall clock of the last sample, seconds since the epoch
    samples: int
    window_s: float  # between the first and the last sample
    mode: str = "live"  # live | case
    provisional: bool = False


@dataclass(frozen=True)
class Engine:
    """The inference engine that is starting."""

    name: str
    version: Optional[str] = None
    args: Dict[str, str] = field(default_factory=dict)
    modified: List[str] = field(default_factory=list)  # files that differ from the installed wheel


@dataclass(frozen=True)
class PhaseNow:
    """Where the start is."""

    id: Phase
    since_s: Optional[float] = None  # how long it has been in it, at least
    expected_s: Optional[float] = None  # after which it is overdue
    ordinal: int = 0  # counted from 1
    of: int = 0
    next_line: Optional[str] = None  # what a good start prints next
    basis: str = ""  # what `expected_s` rests on: a baseline and its runs, or the ceiling of the engine's profile


@dataclass(frozen=True)
class Clocks:
    """How long ago."""

    age_s: Optional[float] = None  # since the root process started
    quiet_s: Optional[float] = None  # since anything moved: progress or work
    since_log_s: Optional[float] = None
    since_progress_s: Optional[float] = None
    evidence_lost_in_s: Optional[float] = None  # a time-out that will end the launch, and the evidence with it


@dataclass(frozen=True)
class ProcessRow:
    """One member."""

    host: str
    pid: int
    nspid: Optional[int]
    ppid: int
    role: Role
    needed: bool
    title: str
    state: str
    cpu_pct: Optional[float] = None  # of one core, over the last 14 s; of one that is stuck, since then
    rss: Optional[int] = None
    threads: Optional[int] = None
    phase: Optional[Phase] = None
    last_line: Optional[str] = None
    last_line_age_s: Optional[float] = None


@dataclass(frozen=True)
class LogRow:
    """One log of the launch."""

    path: str
    via: LogVia
    lines: Optional[int] = None
    bytes: Optional[int] = None
    last_growth_s: Optional[float] = None
    tail: List[str] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class PortRow:
    """One port of the launch: where it listens, or where it should."""

    host: str
    port: int
    pid: Optional[int]
    state: str  # LISTEN, "not listening", or by whom it is taken
    health: Optional[str] = None  # "200", "refused", "no answer in 2 s"


@dataclass(frozen=True)
class Place:
    """Where in the source a thread is."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Culprit:
    """The last needed member on a chain of waits, and what it waits for beyond that."""

    host: str
    pid: int
    tid: Optional[int]
    nstid: Optional[int]
    role: Role
    rank: str
    phase: Optional[Phase]
    mechanism: Mechanism
    detail: str  # one sentence, for people
    frame: Optional[Place] = None
    since_s: Optional[float] = None
    object: Optional[str] = None  # a lock's holder, a file, a child, a host
    certainty: Certainty = "hint"


@dataclass(frozen=True)
class RankRow:
    """What one needed member is doing. Members with equal pictures share a group."""

    host: str
    pid: int
    role: Role
    rank: str
    phase: Optional[Phase]
    mechanism: Mechanism
    group: int
    since_s: Optional[float] = None  # how long its thread has been where it is, at least
    quiet_s: Optional[float] = None  # how long nothing of it has moved; None when too little was seen to say


@dataclass(frozen=True)
class StackNode:
    """A frame of the merged stack tree, outermost first, with the ranks that are in it and those that are not."""

    function: str
    file: str
    line: int
    present: List[str]
    absent: List[str]
    children: List["StackNode"] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """One end of a wait."""

    host: str
    pid: int
    tid: Optional[int] = None


@dataclass(frozen=True)
class Wait:
    """`source` cannot go on until `target` does. In JSON the names are `from` and `to`."""

    source: End
    target: Optional[List[End]]  # None: nobody can end it, or nobody is known
    via: Via
    any: bool = False  # one of several targets would do
    object: Optional[str] = None
    deadline_s: Optional[float] = None
    certainty: Certainty = "hint"


@dataclass(frozen=True)
class Cause:
    """A known reason for what is seen."""

    id: str
    title: str
    confidence: Certainty
    evidence: List[str] = field(default_factory=list)
    next: List[str] = field(default_factory=list)
    disprove: str = ""
    sources: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class UndecidedCause:
    """A cause that could not be judged, and the facts that were missing."""

    id: str
    missing: List[str]


@dataclass(frozen=True)
class BaselinePhase:
    """One phase now beside good starts."""

    id: Phase
    now_s: Optional[float]
    p50_s: float
    p95_s: float


@dataclass(frozen=True)
class BaselineRow:
    """The good start that this one was compared with."""

    name: str
    distance: List[str] = field(default_factory=list)
    phases: List[BaselinePhase] = field(default_factory=list)
    missing_lines: List[str] = field(default_factory=list)  # templates that every good start had printed by now
    extra_lines: List[str] = field(default_factory=list)  # templates that no good start printed
    runs: int = 0  # good starts that it rests on
    kind: str = "recorded"  # recorded | published
    overdue_line: Optional[str] = None  # template that should come next
    overdue_by_s: Optional[float] = None  # how late it is; negative: not due yet
    facts: List[str] = field(default_factory=list)  # totals beside those of the good starts, one sentence each


@dataclass(frozen=True)
class ProgressRow:
    """One channel on which something moved, or did not."""

    channel: str  # "cpu of 4711", "log", "read of 4711"
    kind: ProgressClass  # `class` in JSON
    moved: bool
    rate: Optional[float] = None
    unit: str = ""
    eta_s: Optional[float] = None  # time left, where that can be known
    detail: str = ""
    done: Optional[float] = None  # how much of `total`; bytes where `unit` is "B/s"
    total: Optional[float] = None
    eta_low_s: Optional[float] = None  # the time left is hardly less
    eta_high_s: Optional[float] = None  # … and hardly more
    limit: str = ""  # what it goes as fast as, where that was seen: "storage", "one CPU core", …


@dataclass(frozen=True)
class EndedRow:
    """One member that has ended."""

    host: str
    pid: int
    role: Role
    rank: str
    needed: bool
    how: str  # for people: "killed by signal 9 (SIGKILL)"
    status: Optional[int] = None  # exit status, when it ended by itself
    signal: Optional[int] = None  # what ended it
    ago_s: Optional[float] = None  # before the last sample


@dataclass(frozen=True)
class CrashTraceback:
    """The first traceback in time; later ones are its cascade."""

    role: Optional[Role]  # who wrote it, where the line tells
    rank: str
    exception: str
    lines: List[str]
    cascade: int = 0  # how many more followed


@dataclass(frozen=True)
class LastLine:
    """The last line of one writer."""

    role: Optional[Role]
    rank: str
    pid: Optional[int]
    line: str
    ago_s: Optional[float] = None


@dataclass(frozen=True)
class Crash:
    """How a launch ended: the first to end comes first."""

    ended: List[EndedRow] = field(default_factory=list)
    oom: List[str] = field(default_factory=list)  # what speaks for the OOM killer
    traceback: Optional[CrashTraceback] = None
    last_lines: List[LastLine] = field(default_factory=list)  # oldest first


@dataclass(frozen=True)
class UnseenRow:
    """What could not be seen, why, and how to see it without losing the evidence."""

    host: str
    pid: Optional[int]
    probe: str
    reason: UnseenReason
    detail: str
    fix: str


@dataclass(frozen=True)
class CostRow:
    """What the look cost."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    paused_ms: Dict[str, float] = field(default_factory=dict)  # pid -> ms


@dataclass(frozen=True)
class Report:
    """One diagnosis."""

    hangdoc: About
    verdict: Verdict
    confidence: Certainty
    summary: str
    engine: Engine
    schema: str = REPORT_SCHEMA
    retracted: Optional[Verdict] = None
    reasons: List[str] = field(default_factory=list)  # why this verdict: its evidence, one sentence each
    next: List[str] = field(default_factory=list)  # what to do now, commands with this launch's own values
    disprove: Optional[str] = None  # what would prove it wrong
    phase: Optional[PhaseNow] = None
    clocks: Clocks = Clocks()
    processes: List[ProcessRow] = field(default_factory=list)
    logs: List[LogRow] = field(default_factory=list)
    ports: List[PortRow] = field(default_factory=list)
    culprits: List[Culprit] = field(default_factory=list)
    ranks: List[RankRow] = field(default_factory=list)
    stacks: List[StackNode] = field(default_factory=list)
    waits: List[Wait] = field(default_factory=list)
    causes: List[Cause] = field(default_factory=list)
    undecided: List[UndecidedCause] = field(default_factory=list)
    baseline: Optional[BaselineRow] = None
    crash: Optional[Crash] = None  # only with the verdict crashed
    progress: List[ProgressRow] = field(default_factory=list)
    unseen: List[UnseenRow] = field(default_factory=list)
    cost: CostRow = CostRow()
    redacted: Dict[str, int] = field(default_factory=dict)  # what was taken out, by kind -> how much
