"""The closed lists of words that hangdoc speaks in: code, output and documents use them unchanged.

Standard library only and Python 3.8: this module travels to the hosts that are looked at.
"""

from __future__ import annotations

from typing import Literal, Tuple, get_args

Role = Literal[
    "launcher", "api-server", "engine-core", "worker", "scheduler", "detokenizer", "tokenizer",
    "dp-controller", "dp-coordinator", "ray", "compiler", "downloader", "helper",
]  # fmt: skip
Phase = Literal[
    "import", "config", "engine-spawn", "engine-init", "distributed-init", "model-init", "download",
    "weight-load", "post-load", "compile", "memory-profile", "kv-cache", "kernel-warmup", "graph-capture",
    "frontend-init", "http-listen", "warmup", "ready",
]  # fmt: skip
Mechanism = Literal[
    "dead", "stopped", "frozen", "traced", "uninterruptible",
    "mutex-self", "lock-self", "lock-cycle", "lock-wait", "event-wait", "gil-held", "gil-wait",
    "file-lock", "stale-lock-file", "fifo-open", "pipe-read", "pipe-write", "terminal-read",
    "socket-connect", "socket-recv", "socket-accept", "queue-wait", "rendezvous",
    "collective", "collective-mismatch", "gpu-wait", "gpu-spin", "driver-call",
    "child-wait", "compile", "download", "disk-read",
    "busy-loop", "sleep", "sleep-loop", "computing", "idle", "unknown",
]  # fmt: skip
Verdict = Literal["ready", "progressing", "slow", "suspect", "hung", "crashed", "undecided"]
Certainty = Literal["certain", "likely", "hint"]
ProgressClass = Literal["progress", "work", "idling"]
UnseenReason = Literal[
    "gone", "zombie", "denied", "timed-out", "tool-missing", "unsupported", "overwritten", "skipped", "failed",
]  # fmt: skip
Via = Literal[
    "mutex", "rwlock", "join", "python-lock", "gil", "pipe", "fifo", "unix", "tcp", "eventfd", "epoll", "flock",
    "fcntl", "file", "disk", "child", "vfork", "shm-ring", "collective", "rendezvous", "device", "signal", "none",
]  # fmt: skip
# How the output of a process reaches us: what stands behind its fd 1 or 2.
LogVia = Literal["file", "pipe", "tee", "container", "terminal", "socket", "null", "deleted", "option", "none"]

ROLES: Tuple[Role, ...] = get_args(Role)
PHASES: Tuple[Phase, ...] = get_args(Phase)
MECHANISMS: Tuple[Mechanism, ...] = get_args(Mechanism)
VERDICTS: Tuple[Verdict, ...] = get_args(Verdict)

# A launch can become ready without these.
NEVER_NEEDED: Tuple[Role, ...] = ("compiler", "downloader", "helper", "ray")
