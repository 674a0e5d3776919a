"""The closed list of facts that a cause may ask for: type, scope, probe and meaning. `docs/facts.md` is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["bool", "number", "seconds", "bytes", "text", "texts", "version", "lines"]
Scope = Literal["launch", "host", "member"]

KIND_WORDS: dict[Kind, str] = {
    "bool": "true or false",
    "number": "a number",
    "seconds": "a duration in seconds",
    "bytes": "a size in bytes",
    "text": "one text",
    "texts": "a set of texts",
    "version": "a version, compared by its release numbers",
    "lines": "lines of a log; asked with a pattern",
}
# Probe -> what to do when it was not asked or told nothing. "judged" facts rest on several probes.
PROBES: dict[str, str] = {
    "judged": "give it more time: run `hangdoc diagnose` again, or `hangdoc watch`",
    "arguments": "look while the root process lives: its command line holds the arguments",
    "processes": "run as the owner of the processes or as root, on the host",
    "threads": "run as the owner of the processes or as root, on the host",
    "stacks": "run with --stacks auto, as the owner of the processes or as root",
    "native": "run with --deep, which pauses the process for up to 2 s",
    "fds": "run as the owner of the processes or as root, on the host",
    "sockets": "run as root on the host (in the container's network namespace)",
    "environ": "run as the owner of the processes or as root, on the host",
    "packages": "run as the owner of the processes or as root, on the host",
    "logs": "name the log with --log FILE",
    "storage": "run as the owner of the processes or as root, on the host",
    "host": "run as root on the host, not in a container",
    "health": "look from the host of the server, where its port can be asked",
    "baseline": "record a good start with `hangdoc record-baseline NAME`",
}


@dataclass(frozen=True)
class Fact:
    """One row of the list."""

    name: str
    kind: Kind
    scope: Scope
    probe: str  # where it comes from, a key of PROBES
    means: str  # one sentence
    label: str = ""  # how a sentence of evidence names it; the name when empty
    named: bool = False  # it is a family, asked with `name`: one variable, one argument, one package

    @property
    def said(self) -> str:
        """How a sentence names it."""
        return self.label or self.name.replace("_", " ")


def _launch(name: str, kind: Kind, probe: str, means: str, label: str = "", *, named: bool = False) -> Fact:
    return Fact(name, kind, "launch", probe, means, label, named)


def _host(name: str, kind: Kind, means: str, label: str = "", *, named: bool = False, probe: str = "host") -> Fact:
    return Fact(name, kind, "host", probe, means, label, named)


def _stored(name: str, kind: Kind, means: str, label: str = "", *, named: bool = False) -> Fact:
    return _host(name, kind, means, label, named=named, probe="storage")


def _member(name: str, kind: Kind, probe: str, means: str, label: str = "", *, named: bool = False) -> Fact:
    return Fact(name, kind, "member", probe, means, label, named)


_ROWS = (
    # The launch
    _launch("verdict", "text", "judged", "The verdict: ready, progressing, slow, suspect, hung or crashed."),
    _launch("phase", "text", "judged", "The phase of the culprit, else of the member furthest behind."),
    _launch("engine", "text", "arguments", "vllm or sglang."),
    _launch("version", "version", "packages", "Version of the engine.", "version of the engine"),
    _launch("arg", "text", "arguments", "An argument of the engine, long name without dashes; a flag is the empty text.",
            "argument", named=True),
    _launch("env", "text", "environ", "A variable of the root process, if it is on the allow-list.", "variable", named=True),
    _launch("package", "version", "packages", "Version of a Python distribution that the members import, by its normalised"
            " name.", "package", named=True),
    _launch("modified", "texts", "packages", "Files on the stuck stacks that differ from their wheel.", "changed files"),
    _launch("age", "seconds", "processes", "Since the root process started.", "age of the launch"),
    _launch("log_silence", "seconds", "logs", "Since a log of the launch last grew.", "silence of the log"),
    _launch("log", "lines", "logs", "Any line that the launch wrote.", "log"),
    _launch("last_line", "text", "logs", "The last line of the log that grew last, also one without its end.",
            "last line of the log"),
    _launch("log_via", "texts", "logs", "What stands behind the outputs: file pipe tee container terminal null …",
            "output goes to"),
    _launch("exception", "text", "logs", "The line that names the exception of the first traceback.", "first exception"),
    _launch("repeats", "bool", "logs", "The log goes on with lines that only say that something still waits.",
            "log only says that it waits"),
    _launch("port", "number", "arguments", "The port that the server should listen on."),
    _launch("listening", "bool", "sockets", "The launch listens on its port.", "listens on its port"),
    _launch("port_taken", "bool", "sockets", "A process outside of the launch listens on its port.",
            "port is taken by another process"),
    _launch("health", "text", "health", "Status of the health path, or why there is none: 200, 503, refused, no answer …",
            "health path says"),
    _launch("head", "bool", "arguments", "This host serves HTTP (node rank 0)."),
    _launch("nodes", "number", "arguments", "Hosts that the arguments ask for.", "nodes asked for"),
    _launch("node_rank", "number", "arguments", "Number of this host among them.", "node rank"),
    _launch("ranks_expected", "number", "arguments", "Ranks (TP x PP, times DP where those are processes) asked for.",
            "ranks asked for"),
    _launch("ranks_seen", "number", "processes", "Ranks seen, dead ones included.", "ranks seen"),
    _launch("programs", "texts", "processes", "Names of all programs of the launch, helpers and compilers included.",
            "programs"),
    _launch("bars", "texts", "logs", "Progress bars that are not full, as LABEL DONE/TOTAL.", "progress bar"),
    _launch("bar_share", "number", "logs", "Share done of the progress bar that is furthest behind, 0 to 1.",
            "share done of a progress bar"),
    _launch("ranks_apart", "bool", "judged", "Ranks are in different phases."),
    _launch("victim_count", "number", "judged", "Needed members that wait for another.", "members that wait"),
    _launch("overdue", "bool", "baseline", "The phase lasts longer than in the good starts on record."),
    _launch("missing_lines", "texts", "baseline", "Lines that every good start had printed by now.", "lines missing"),
    _launch("ring_full", "bool", "fds", "A ring in shared memory has a reader that left all chunks unread.",
            "a shared-memory ring is full"),
    _launch("connecting", "texts", "sockets", "Addresses that members try to connect to without an answer (SYN_SENT).",
            "connects without an answer to"),
    _launch("remote_peers", "texts", "sockets", "Addresses of other hosts with which members have connections.",
            "connected with other hosts"),
    _launch("oom", "texts", "host", "What speaks for the OOM killer: kernel lines of members, counters of their cgroups.",
            "OOM killer"),
    # The host
    _host("kernel", "version", "Version of the kernel."),
    _host("arch", "text", "Machine architecture: x86_64, aarch64."),
    _host("cpus", "number", "CPUs of the host."),
    _host("memory_total", "bytes", "Memory of the host."),
    _host("memory_available", "bytes", "Memory that is available without swapping."),
    _host("memory_available_share", "number", "The same as a share of all, 0 to 1."),
    _host("shm_total", "bytes", "Size of /dev/shm as the members see it.", "size of /dev/shm"),
    _host("shm_free", "bytes", "Free bytes of /dev/shm as the members see it.", "free in /dev/shm"),
    _host("pressure", "number", "Pressure stall in per cent, named as in io.some.avg10, memory.full.avg60.",
          "pressure", named=True),
    _host("dead_mounts", "texts", "Mount points that did not answer within 0.5 s.", "mounts that do not answer"),
    _host("remote_mounts", "texts", "Types of mounts served by other machines or programs: nfs4, fuse.s3fs, lustre …",
          "remote mounts"),
    _host("kernel_oom", "texts", "Lines of the OOM killer in the kernel log, of the last day.", "kernel log"),
    _host("kernel_xid", "texts", "Lines about GPU errors in the kernel log (Xid, SXid, amdgpu resets).", "kernel log"),
    _host("kernel_hung_task", "texts", "Lines about tasks blocked for minutes in the kernel log.", "kernel log"),
    _host("yama", "number", "kernel.yama.ptrace_scope."),
    _host("container", "text", "The kind of container that hangdoc runs in, empty outside of one."),
    # Folders and files of the launch on a host. `name` is a role: model tokenizer draft-model download-dir hub xet
    # vllm-cache sglang-cache torch-extensions inductor triton flashinfer deep-gemm aiter cuda-cache modelscope tilelang ray
    # temporary home site-packages, or `any`.
    _stored("place_paths", "texts", "Folders of a role.", "folder", named=True),
    _stored("place_free", "bytes", "Bytes that may still be written there, of the fullest one.", "free in", named=True),
    _stored("place_inodes_free", "number", "Files that may still be made there.", "files that may be made in", named=True),
    _stored("place_kinds", "texts", "Types of the file systems: ext4 overlay tmpfs nfs4 lustre fuse.s3fs …",
            "file system of", named=True),
    _stored("place_remote", "bool", "Its file system is served by another machine or by a program.", "remote:", named=True),
    _stored("place_read_only", "bool", "It is mounted read-only.", "read-only:", named=True),
    _stored("place_silent", "bool", "Its file system did not answer within 0.5 s.", "does not answer:", named=True),
    _stored("checkpoint_missing", "number", "Weight files that the checkpoint's index names and that are not there.",
            "weight files missing"),
    _stored("checkpoint_bytes", "bytes", "Size of the weight files.", "size of the checkpoint"),
    _stored("checkpoint_formats", "texts", "safetensors bin pt gguf.", "format of the checkpoint"),
    _stored("partials", "texts", "Files that are being downloaded, or were left so.", "unfinished downloads"),
    _stored("partial_silence", "seconds", "Since the youngest of them grew.", "downloads silent for"),
    _stored("left_locks", "texts", "Lock files that nobody can be behind: not locked, not open, no living owner.",
            "lock files left behind in", named=True),
    _stored("left_lock_age", "seconds", "Since the oldest of them was changed.", "age of the lock left in", named=True),
    _stored("held_locks", "texts", "Lock files that the kernel says are locked.", "lock files held in", named=True),
    # One member of the launch
    _member("role", "text", "processes", "Its role: launcher, engine-core, worker, scheduler …"),
    _member("mechanism", "text", "threads", "What its thread of interest does (docs/words.md)."),
    _member("member_phase", "text", "judged", "The phase that this member is in.", "phase"),
    _member("detail", "text", "threads", "The sentence about what it does."),
    _member("moving", "bool", "judged", "Whether it made progress or did work within the window."),
    _member("quiet", "seconds", "judged", "How long nothing of it has moved, at most the window.", "still"),
    _member("in_place", "seconds", "threads", "How long its thread has been where it is, at least.", "in one place"),
    _member("not_run", "seconds", "threads", "How long its thread of interest has not been on a CPU at all.",
            "has not run for"),
    _member("innermost", "text", "stacks", "Innermost Python frame of its thread of interest, as FUNCTION (FILE).",
            "innermost frame"),
    _member("frames", "texts", "stacks", "Python frames of its thread of interest, as FUNCTION (FILE).", "frame"),
    _member("any_frames", "texts", "stacks", "Python frames of all its threads, as FUNCTION (FILE).", "frame of a thread"),
    _member("native_frames", "texts", "native", "Native frames of its threads, as FUNCTION (FILE).", "native frame"),
    _member("waits_for", "text", "stacks", "Whom its frames say it waits for: ranks, a role, threads, children, object."),
    _member("via", "texts", "threads", "What its waits go through: pipe tcp flock child rendezvous collective …",
            "waits through"),
    _member("wait_objects", "texts", "fds", "Objects of its waits: paths, addresses.", "waits on"),
    _member("nobody_known", "bool", "fds", "It has a wait whose other end nobody of the launch holds.",
            "nobody known is at the other end"),
    _member("object", "text", "fds", "What it waits for beyond itself: a path, a child, a host."),
    _member("path", "text", "fds", "The file that it waits for, where it is one.", "waits for file"),
    _member("syscall", "text", "threads", "The system call that its main thread is blocked in.", "blocked in"),
    _member("wchan", "text", "threads", "Kernel function that its main thread sleeps in.", "sleeps in"),
    _member("lock_age", "seconds", "storage", "Since the lock file that it waits for was changed.", "age of its lock file"),
    _member("lock_older", "bool", "storage", "That lock file was last changed before the launch began.",
            "its lock file is older than the launch"),
    _member("lock_held", "bool", "storage", "The kernel has a lock on that file.", "its lock file is held"),
    _member("lock_owner_alive", "bool", "storage", "The owner that a soft lock file names lives on this host.",
            "owner of its lock file lives"),
    _member("lock_holders", "texts", "storage", "Who holds the file lock that it waits for; known to be nobody where the"
            " file was left behind.", "its file lock is held by"),
    _member("libraries", "texts", "storage", "Libraries that it maps: drivers, NCCL, what was preloaded or injected.",
            "maps library"),
    _member("weights_mapped", "texts", "storage", "Weight files that it maps now.", "maps weights"),
    _member("state", "text", "processes", "Process state as in proc(5): R S D T t Z."),
    _member("program", "text", "processes", "Name of its program, as the kernel keeps it (15 characters)."),
    _member("title", "text", "processes", "Its title or command line, bounded."),
    _member("exit_signal", "number", "processes", "The signal that ended it.", "ended by signal"),
    _member("exit_status", "number", "processes", "Its exit status, where it ended by itself."),
    _member("cpu", "number", "processes", "CPU that it used over the window, in cores.", "CPU in cores"),
    _member("rss", "bytes", "processes", "Its resident memory.", "resident memory"),
    _member("threads", "number", "processes", "Number of its threads.", "threads"),
    _member("helpers", "texts", "processes", "Programs below it that no start needs: ninja, nvcc, cicc, ptxas, git …",
            "runs below itself"),
    _member("limit", "number", "environ", "A soft limit by its name in /proc/PID/limits; unlimited is -1.", "limit", named=True),
    _member("open_files", "texts", "fds", "Paths and devices that it has open.", "has open"),
    _member("output", "texts", "fds", "Kinds of its fd 1 and 2: file pipe terminal device socket fifo.", "output"),
    _member("output_full", "bool", "fds", "Its fd 1 or 2 is a pipe with less than a page of room.",
            "output pipe is full"),
    _member("output_blocked", "bool", "fds", "Its main thread is blocked in a write into a pipe that is its fd 1 or 2.",
            "blocked in a write to its output"),
    _member("input", "text", "fds", "Kind of its fd 0: terminal pipe device file socket."),
    _member("connecting_to", "texts", "sockets", "Addresses that it tries to connect to without an answer (SYN_SENT).",
            "connects without an answer to"),
    _member("connected_to", "texts", "sockets", "Addresses of its established TCP connections.", "connected to"),
    _member("listens_on", "texts", "sockets", "Addresses that it listens on.", "listens on"),
    _member("tcp_silence", "seconds", "sockets", "Since the last of its TCP connections received something.",
            "silence of its connections"),
    _member("own_log", "lines", "logs", "Any line that is known to be its own.", "its log"),
    _member("own_last_line", "text", "logs", "The last line that is known to be its own.", "its last line"),
    _member("frozen", "bool", "host", "Its cgroup is frozen.", "cgroup is frozen"),
    _member("oom_kills", "number", "host", "OOM kills that its cgroup counted.", "OOM kills of its cgroup"),
    _member("memory_limit", "bytes", "host", "Memory limit of its cgroup.", "memory limit"),
    _member("memory_used_share", "number", "host", "Memory of its cgroup as a share of the limit, 0 to 1.",
            "share of the memory limit used"),
    _member("cpu_quota", "number", "host", "CPUs that its cgroup may use.", "CPU quota"),
    _member("throttled", "seconds", "host", "Time that its cgroup was kept from running by the quota.",
            "throttled by the CPU quota"),
)  # fmt: skip

FACTS: dict[str, Fact] = {one.name: one for one in _ROWS}
