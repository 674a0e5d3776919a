"""All that the probes saw on one host at one instant.

`None` in a field always means "not seen", never "nothing there"; `Sample.unseen` says why. Times are seconds,
sizes are bytes. Process and thread ids are numbers of the *host's* pid namespace, the one that hangdoc reads.

Standard library only and Python 3.8: this module travels to the hosts that are looked at.
"""

from dataclasses import field
from typing import Dict, List, Optional, Tuple

from .deep import DeepStep as DeepStep  # noqa: PLC0414 - the names belong to a sample, too
from .deep import Glance as Glance  # noqa: PLC0414
from .deep import Trace as Trace  # noqa: PLC0414
from .frozen import dataclass
from .host import Cgroup as Cgroup  # noqa: PLC0414
from .host import HostFacts as HostFacts  # noqa: PLC0414
from .host import KernelLine as KernelLine  # noqa: PLC0414
from .locks import FileLock as FileLock  # noqa: PLC0414 - the names belong to a sample, too
from .locks import FutexWait as FutexWait  # noqa: PLC0414
from .locks import Gil as Gil  # noqa: PLC0414
from .locks import Ring as Ring  # noqa: PLC0414
from .machine import Machine as Machine  # noqa: PLC0414
from .network import Network as Network  # noqa: PLC0414
from .places import HostPlace
from .storage import Checkpoint as Checkpoint  # noqa: PLC0414
from .storage import LockFile as LockFile  # noqa: PLC0414
from .storage import Partial as Partial  # noqa: PLC0414
from .storage import Place as Place  # noqa: PLC0414
from .storage import Storage as Storage  # noqa: PLC0414
from .storage import WeightFile as WeightFile  # noqa: PLC0414
from .words import LogVia, UnseenReason


@dataclass(frozen=True)
class Unseen:
    """Something that a probe was asked for and could not see."""

    probe: str
    reason: UnseenReason
    detail: str = ""  # what exactly, in words: "environ of 4711: Permission denied"
    pid: Optional[int] = None
    host: str = ""  # in a union of several hosts, whose it is; else that of `pid`


@dataclass(frozen=True)
class Thread:
    """One thread (`/proc/PID/task/TID`), read without stopping it."""

    tid: int
    state: str = "?"  # R S D T t Z X I, proc(5)
    name: str = ""
    nstid: Optional[int] = None  # its number in its own pid namespace, where that differs
    wchan: Optional[str] = None  # kernel function it sleeps in; "0" when it runs
    syscall: Optional[int] = None  # call it is blocked in; -1 blocked outside of one; None unseen or running
    args: Tuple[int, ...] = ()  # six arguments of that call
    sp: Optional[int] = None
    pc: Optional[int] = None
    utime: float = 0.0  # seconds of CPU in user mode
    stime: float = 0.0
    ran_ns: Optional[int] = None  # schedstat: time on a CPU; unchanged means that nothing else changed
    waited_ns: Optional[int] = None  # schedstat: time runnable but not running
    slices: Optional[int] = None  # schedstat: number of times it was put on a CPU
    deadline: Optional[float] = None  # CLOCK_MONOTONIC seconds at which the blocked call ends by itself
    futex: Optional[FutexWait] = None
    poll: Tuple[int, ...] = ()  # fds of a blocked poll(2), where readable
    path: Optional[str] = None  # path argument of a blocked open(2), where readable
    pending_stop: bool = False  # SIGSTOP is pending on it (SigPnd)


@dataclass(frozen=True)
class Fd:
    """One open file descriptor, by readlink and fdinfo only."""

    fd: int
    kind: str  # file dir pipe fifo socket eventfd epoll device terminal memfd inotify pidfd other
    target: str  # text of the link
    inode: Optional[int] = None
    flags: Optional[int] = None  # open flags, octal in fdinfo
    pos: Optional[int] = None
    watched: Tuple[int, ...] = ()  # epoll: fds in its set
    eventfd_id: Optional[int] = None
    eventfd_count: Optional[int] = None
    pidfd: Optional[int] = None  # process that a pidfd stands for, as numbered where hangdoc runs; -1 when it has ended
    locks: Tuple[str, ...] = ()  # `lock:` lines: locks that this open file holds
    # Pipes that a thread is blocked in, or behind fd 1 and 2:
    unread: Optional[int] = None  # bytes that lie in it
    capacity: Optional[int] = None  # bytes that fit into it; a writer can block before, when pages are part filled


@dataclass(frozen=True)
class Frame:
    """One frame of a Python stack. `file` is as long as the tool gives it, `short` relative to sys.path."""

    function: str
    file: str
    short: str = ""
    line: int = 0


@dataclass(frozen=True)
class Stack:
    """Python stack of one thread, innermost frame first (as py-spy prints it)."""

    tid: Optional[int]
    name: str = ""
    active: Optional[bool] = None
    gil: bool = False
    frames: Tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Io:
    """`/proc/PID/io`: rchar and wchar count reads and writes through system calls, *_bytes those that reached storage."""

    rchar: int
    wchar: int
    syscr: int
    syscw: int
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True)
class Process:
    """One process. The first block is always there; the rest only after the probe named was asked."""

    pid: int
    ppid: int
    start: float  # seconds since boot, 1/100 s: with pid it identifies the process for ever
    state: str
    comm: str
    # probe `processes`
    nspid: Tuple[int, ...] = ()  # its pid in each nested namespace, outermost first
    uid: Optional[int] = None
    exe: Optional[str] = None
    cwd: Optional[str] = None
    cmdline: Optional[Tuple[str, ...]] = None  # as it is now; after setproctitle this is the title in one piece
    overwritten: bool = False  # the argument area was overwritten by setproctitle: cmdline is a title, not arguments
    num_threads: Optional[int] = None
    utime: float = 0.0
    stime: float = 0.0
    child_time: float = 0.0  # CPU seconds of children that ended and were waited for
    minflt: int = 0
    majflt: int = 0
    rss: Optional[int] = None
    rss_file: Optional[int] = None
    rss_shmem: Optional[int] = None
    exit_code: Optional[int] = None  # wait status of a zombie, where it may be read
    tracer: Optional[int] = None
    pending_stop: bool = False
    switches: Optional[int] = None  # how often its main thread was put off a CPU: the same twice, and it has not run
    io: Optional[Io] = None
    cgroup: Optional[str] = None
    pid_ns: Optional[int] = None
    net_ns: Optional[int] = None
    mnt_ns: Optional[int] = None
    # probe `threads`: keyed by tid
    threads: Optional[Dict[int, Thread]] = None
    gil: Optional[Gil] = None  # None also when nobody waits for it, or when it could not be read
    shared: Optional[Tuple[str, ...]] = None  # shared memory that it maps, "major:minor:inode", at most 256 of it
    # probe `fds`: keyed by fd
    fds: Optional[Dict[int, Fd]] = None
    # probe `environ`: only names of the allow-list, secrets masked
    env: Optional[Dict[str, str]] = None
    limits: Optional[Dict[str, Tuple[str, str]]] = None  # ulimits: name -> soft, hard
    cpus_allowed: Optional[str] = None  # CPUs that it may run on, "0-7,16": taskset, cpuset, --numa binding
    mems_allowed: Optional[str] = None  # NUMA nodes that it may take memory from
    seccomp: Optional[int] = None  # 0 none, 1 strict, 2 filter (the usual one of a container)
    capabilities: Optional[int] = None  # effective ones, as bits of capability.h
    # probe `stacks`
    stacks: Optional[List[Stack]] = None
    python: Optional[str] = None
    # probes `glance`, `native` (stacks with native frames) and `strace`
    glance: Optional[Glance] = None
    native: Optional[List[Stack]] = None
    trace: Optional[Trace] = None
    # probe `packages`: name -> version, from the site-packages of the process
    packages: Optional[Dict[str, str]] = None
    modified: Optional[List[str]] = None  # files of engine wheels on its stacks whose hash differs from RECORD
    # probe `kernel`: thread -> functions of the kernel, innermost first, of threads in state D (and R, in the kernel)
    kernel_stacks: Optional[Dict[int, Tuple[str, ...]]] = None
    # probe `storage`
    weights: Optional[Tuple[str, ...]] = None  # weight files that it maps now, at most 512
    libraries: Optional[Tuple[str, ...]] = None  # mapped ones that matter: preloaded, drivers, NCCL, allocators


@dataclass(frozen=True)
class TcpInfo:
    """Clocks of a TCP connection (`tcp_info`, linux/tcp.h), seconds before the sample."""

    last_recv_s: float
    last_sent_s: float
    retransmits: int = 0
    unacked: int = 0


@dataclass(frozen=True)
class Socket:
    """One socket of a member. `inode` joins it to an fd `socket:[inode]`; 0 is a connection that nobody accepted yet."""

    inode: int
    family: str  # tcp tcp6 unix
    state: str  # LISTEN ESTABLISHED SYN_SENT … as in tcp(7); unix: LISTEN, CONNECTED, UNCONNECTED
    local: str = ""  # address:port, or path
    remote: str = ""
    peer: Optional[int] = None  # unix: inode of the other end
    recv_queue: int = 0
    send_queue: int = 0
    net_ns: Optional[int] = None
    info: Optional[TcpInfo] = None


@dataclass(frozen=True)
class LogChunk:
    """A piece of a log's text. Between two chunks there may be a gap: compare offsets."""

    offset: int
    text: str  # carriage returns kept; undecodable bytes as \\xNN
    size: int = 0  # bytes that it stands for; the next chunk without a gap begins at offset + size


@dataclass(frozen=True)
class Log:
    """One log behind a member's fd 1 or 2 (or named with --log)."""

    path: str  # file, or "pipe:[123]", "/dev/pts/3" when there is no file to read
    via: LogVia
    pids: Tuple[int, ...] = ()  # members that write to it
    reader: Optional[int] = None  # pid that reads the pipe, when `via` is pipe or tee
    size: Optional[int] = None
    lines: Optional[int] = None  # line ends in the whole file, None when it was too large to count
    mtime: Optional[float] = None  # wall clock
    inode: Optional[int] = None
    chunks: Tuple[LogChunk, ...] = ()  # only what is new since the offset asked for
    note: str = ""  # for people: "block-buffered: PYTHONUNBUFFERED is not set", "rotated", "truncated"
    place: int = 0  # in a union, of the host that it lies on


@dataclass(frozen=True)
class Health:
    """Answer of a health path, asked in the network namespace of the process."""

    pid: int
    port: int
    path: str
    status: Optional[int]  # HTTP status, None without an answer
    detail: str = ""  # "refused", "no answer in 2.0 s", …
    seconds: float = 0.0


@dataclass(frozen=True)
class Ended:
    """The end of a process that was looked at before, as the agent saw it happen (pidfd_open(2))."""

    pid: int
    start: float  # with pid: which process it was
    at: float  # CLOCK_MONOTONIC of the host
    status: Optional[int] = None  # wait status as in wait(2), where the kernel tells it to others than the parent


@dataclass(frozen=True)
class Cost:
    """What the look cost, on the host."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    children: int = 0
    abandoned: int = 0  # children that could not be ended
    paused_ms: Dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """All that was asked of one host at one instant."""

    host: str
    at: float  # wall clock, seconds since the epoch
    mono: float  # CLOCK_MONOTONIC of the host; CLOCK_BOOTTIME differs by suspends, `start` of processes follows that
    boot: float  # CLOCK_BOOTTIME of the host: boot - Process.start is a process's age
    probes: Tuple[str, ...] = ()
    processes: Dict[int, Process] = field(default_factory=dict)
    sockets: List[Socket] = field(default_factory=list)
    logs: List[Log] = field(default_factory=list)
    health: List[Health] = field(default_factory=list)
    host_facts: Optional[HostFacts] = None
    locks: List[str] = field(default_factory=list)  # lines of /proc/locks about files that a member has open
    file_locks: List[FileLock] = field(default_factory=list)
    rings: List[Ring] = field(default_factory=list)
    storage: Optional[Storage] = None  # probe `storage`
    machine: Optional[Machine] = None  # probe `machine`
    networks: Optional[List[Network]] = None  # probe `network`, one for each view that members have
    ended: List[Ended] = field(default_factory=list)  # processes that ended since the last sample, in this order
    deep: List[DeepStep] = field(default_factory=list)  # what --deep did; such a sample is no look at movement
    unseen: List[Unseen] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    # Only of a union of several hosts, see `places`; ids and clocks above are then those of the union.
    places: Tuple[HostPlace, ...] = ()
    further_facts: Dict[int, HostFacts] = field(default_factory=dict)  # by place; `host_facts` is of place 0
    further_machines: Dict[int, Machine] = field(default_factory=dict)  # the same beyond `machine`

    @property
    def facts_by_place(self) -> Dict[int, HostFacts]:
        """Facts of each host that told any, by its place."""
        return self.further_facts if self.host_facts is None else {0: self.host_facts, **self.further_facts}

    @property
    def machines_by_place(self) -> Dict[int, Machine]:
        """What each host is made of, by its place."""
        return self.further_machines if self.machine is None else {0: self.machine, **self.further_machines}
