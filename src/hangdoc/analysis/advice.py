"""What to do now, by mechanism and by reason of not seeing: commands with this launch's own values in them."""

from __future__ import annotations

from ..model.sample import Unseen
from ..model.words import Mechanism, UnseenReason
from .pictures import Picture

# {pid} the culprit, {tid} its thread, {object} what it waits for. Safe and reversible first; what changes the target says so.
NEXT: dict[Mechanism, tuple[str, ...]] = {
    "dead": ("read the first traceback above, not the last", "dmesg -T | grep -iE 'oom|killed process|xid'"),
    "stopped": ("find out who stopped it: a debugger, a job control Ctrl-Z, a SIGSTOP", "to let it go on (changes the target): kill -CONT {pid}"),
    "frozen": ("a container pause or a cgroup freezer holds it; to let it go on (changes the target): docker unpause, or thaw the cgroup",),
    "traced": ("end the debugger or tracer that holds it: grep TracerPid /proc/{pid}/status",),
    "uninterruptible": ("cat /proc/{pid}/task/{tid}/stack    (as root: where in the kernel)", "dmesg -T | tail -50    (driver, disk or network file system)"),
    "disk-read": ("df {object}; look at the file system that the model or cache lies on", "cat /proc/pressure/io"),
    "mutex-self": ("py-spy dump --native --pid {pid}    (stops it for a moment: which library holds the mutex)", "restart without the library or patch whose frame is named"),
    "lock-self": ("look at the frame named: it takes a lock that its own thread holds",),
    "lock-cycle": ("py-spy dump --pid {pid}    (both threads and the locks that they take)", "look at the order in which the frames named take their locks"),
    "lock-wait": ("py-spy dump --pid {pid}    (which thread is inside the same lock)",),
    "event-wait": ("look at who should set the event in the frame named; that thread may have died with an exception",),
    "gil-held": ("py-spy dump --native --pid {pid}    (stops it for a moment: which native call keeps the GIL)",),
    "gil-wait": ("find the thread that holds the GIL: py-spy dump --pid {pid}",),
    "file-lock": ("lslocks | grep -F '{object}'    (who holds it)", "if the holder is no part of this launch, end it or use another cache folder"),
    "stale-lock-file": ("ls -l {object}; if no living process made it, remove it",),
    "fifo-open": ("nobody opened the other end of {object}: start that reader or writer",),
    "pipe-read": ("look at who should write into {object}: lsof -p {pid}",),
    "pipe-write": ("read its output (the program that should drain the pipe has stopped), or start it with output to a file",),
    "terminal-read": ("it asks for input: answer it, or start it with </dev/null and, for model code, --trust-remote-code",),
    "socket-connect": ("ss -tnp | grep {pid}    (which address does not answer: firewall, wrong interface, peer not started)",),
    "socket-recv": ("ss -tnpo | grep {pid}    (the peer accepted and sends nothing)", "look at the server at the other end of {object}"),
    "socket-accept": ("start the peer that should connect, or look at why it cannot reach this host",),
    "queue-wait": ("look at who should put into the queue in the frame named",),
    "rendezvous": ("check that every rank was started and reaches the master address", "ss -tnp | grep {pid}"),
    "collective": ("look at the ranks that are not in this call", "restart with NCCL_DEBUG=INFO and one log per rank if all are in it"),
    "collective-mismatch": ("compare the frames of the ranks: they are in different collectives",),
    "gpu-wait": ("nvidia-smi    (utilisation, Xid errors); dmesg -T | grep -i xid",),
    "gpu-spin": ("nvidia-smi    (full load with low power is a kernel that spins)",),
    "driver-call": ("timeout 10 nvidia-smi; dmesg -T | grep -iE 'xid|nvrm' | tail",),
    "child-wait": ("ps --ppid {pid} -o pid,stat,etime,args    (what its child does)",),
    "compile": ("ps --ppid {pid} -o pid,stat,etime,args    (are compilers alive)",),
    "download": ("du -sh ~/.cache/huggingface    (twice: does it grow)",),
    "busy-loop": ("look at the loop in the frame named: its condition never comes true", "hangdoc diagnose -v {pid}    (all stacks, other ranks)"),
    "sleep": ("look at the frame named: it sleeps there",),
    "sleep-loop": ("look at the frame named: what it waits for in its loop never comes true",),
    "unknown": ("hangdoc diagnose -v {pid}",),
}  # fmt: skip

# What would prove a hang wrong, for every mechanism that another look can clear.
DISPROVE = "a new log line of {label}, or its stack in another function, in a second look a minute later"

_SEE_MORE = {
    "denied": "run hangdoc as root on the host or node; in Kubernetes: kubectl debug -it POD --profile=general --image=python:3 --target=CONTAINER; "
    "only next time: start the container with --cap-add SYS_PTRACE",
    "tool-missing": "install hangdoc with its dependencies where you run it, or put py-spy >= 0.4.0 on the PATH; nothing needs to be restarted",
    "timed-out": "look again with a longer --timeout; a read that never answers is a sign of a dead file system or a driver in trouble",
    "gone": "it ended while it was looked at; look again",
    "zombie": "it has ended; its parent has not collected it yet",
    "overwritten": "setproctitle wrote over it; the arguments and variables of the root process are used instead",
    "unsupported": "this cannot be had on that system",
    "skipped": "left out on purpose, because reads before it did not come back; look again later",
    "failed": "look again with -v; if it stays, report it with the detail",
}


def next_steps(one: Picture) -> list[str]:
    """Commands and hints for a culprit, safe ones first, with its own values in them."""
    values = {"pid": str(one.member.pid), "tid": str(one.tid or one.member.pid), "object": one.object or "it"}
    return [step.format(**values) for step in NEXT.get(one.mechanism, NEXT["unknown"])]


def disproof(one: Picture) -> str:
    """What would prove that this member is not the culprit of a hang."""
    return DISPROVE.format(label=one.member.label)


def fix_of(unseen: Unseen) -> str:
    """How to see it without losing the evidence first."""
    reason: UnseenReason = unseen.reason
    return _SEE_MORE[reason]
