"""The closed lists of words in plain English, and numbers as people read them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ..model.words import Certainty, LogVia, Mechanism, Phase, UnseenReason, Verdict

VERDICT_WORDS: dict[Verdict, str] = {
    "ready": "it serves",
    "progressing": "it moves",
    "slow": "it moves, but later than it should",
    "suspect": "nothing moves, but it is too early to call it a hang",
    "hung": "it will not go on by itself",
    "crashed": "a process that it needs has ended",
    "undecided": "too little was seen",
}

CERTAINTY_WORDS: dict[Certainty, str] = {
    "certain": "certain",
    "likely": "likely",
    "hint": "a hint only",
}

MECHANISM_WORDS: dict[Mechanism, str] = {
    "dead": "has ended",
    "stopped": "stopped by a signal (state T)",
    "frozen": "frozen by its cgroup",
    "traced": "held by a debugger or tracer (state t)",
    "uninterruptible": "blocked in the kernel (state D)",
    "mutex-self": "waits for a native mutex that it holds itself",
    "lock-self": "waits for a Python lock that it holds itself",
    "lock-cycle": "in a circle of threads that wait for each other's locks",
    "lock-wait": "waits for a lock",
    "event-wait": "waits for an event or a condition",
    "gil-held": "holds the GIL and does not give it back",
    "gil-wait": "waits for the GIL",
    "file-lock": "waits for a file lock",
    "stale-lock-file": "waits for a lock file to go away",
    "fifo-open": "waits for someone to open the other end of a named pipe",
    "pipe-read": "waits for data from a pipe",
    "pipe-write": "writes into a full pipe that nobody reads",
    "terminal-read": "waits for someone to type at the terminal",
    "socket-connect": "waits for a connection to be made",
    "socket-recv": "waits for data from a socket",
    "socket-accept": "waits for someone to connect",
    "queue-wait": "waits for a message in a queue",
    "rendezvous": "waits for other ranks to join",
    "collective": "in a collective, waits for the other ranks",
    "collective-mismatch": "in another collective than the other ranks",
    "gpu-wait": "waits for the GPU",
    "gpu-spin": "spins while it waits for the GPU",
    "driver-call": "blocked in a call to the GPU driver",
    "child-wait": "waits for a child process",
    "compile": "compiles",
    "download": "downloads",
    "disk-read": "reads from a disk",
    "busy-loop": "burns CPU in one place",
    "sleep": "sleeps",
    "sleep-loop": "sleeps and wakes in one place",
    "computing": "computes",
    "idle": "idle, as by design",
    "unknown": "what it does could not be seen",
}

PHASE_WORDS: dict[Phase, str] = {
    "import": "importing Python modules",
    "config": "reading the configuration",
    "engine-spawn": "starting the engine's processes",
    "engine-init": "setting up the engine",
    "distributed-init": "joining the ranks",
    "model-init": "building the model",
    "download": "downloading the model",
    "weight-load": "loading weights",
    "post-load": "processing weights after loading",
    "compile": "compiling",
    "memory-profile": "measuring memory",
    "kv-cache": "allocating the KV cache",
    "kernel-warmup": "warming up kernels",
    "graph-capture": "capturing graphs",
    "frontend-init": "setting up the front end",
    "http-listen": "opening the HTTP port",
    "warmup": "sending warm-up requests",
    "ready": "ready",
}

REASON_WORDS: dict[UnseenReason, str] = {
    "gone": "it had ended",
    "zombie": "it has ended and is a zombie",
    "denied": "not permitted",
    "timed-out": "no answer in time",
    "tool-missing": "a tool is missing",
    "unsupported": "not possible on this system",
    "overwritten": "overwritten by the process title",
    "skipped": "left out so as not to do harm",
    "failed": "the attempt failed",
}

LOG_VIA_WORDS: dict[LogVia, str] = {
    "file": "file",
    "pipe": "pipe",
    "tee": "through tee",
    "container": "container log",
    "terminal": "terminal",
    "socket": "socket",
    "null": "thrown away (/dev/null)",
    "deleted": "deleted file",
    "option": "named with --log",
    "none": "no log",
}

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def duration(seconds: float | None) -> str:
    """Seconds as people say them: "0.4 s", "12 s", "3 min 5 s", "1 h 20 min", "2 d 3 h"; None is "unknown"."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _pair(whole, 60, "min", 1, "s")
    if whole < 86400:
        return _pair(whole, 3600, "h", 60, "min")
    return _pair(whole, 86400, "d", 3600, "h")


def _pair(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big} {big_name}" + (f" {rest} {small_name}" if rest else "")


def size(count: float | None) -> str:
    """Bytes with a binary unit: "512 B", "1.5 GiB"; None is "unknown"."""
    if count is None or not math.isfinite(count):
        return "unknown"
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {_UNITS[unit]}"


def rate(value: float | None, unit: str) -> str:
    """A rate with its unit: "1.2 MiB/s" for bytes, "3.0 lines/s"; empty when unknown."""
    if value is None:
        return ""
    if unit in {"B/s", "bytes/s"}:
        return f"{size(value)}/s"
    return f"{value:,.3g} {unit}".strip()


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: "1 process", "3 processes"."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def join_words(words: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else ""


def fold_labels(labels: Iterable[str]) -> str:
    """Labels with runs of numbers folded: TP0 TP1 TP2 TP5 becomes "TP0-TP2, TP5". Equal ones are counted."""
    folded: list[tuple[str, int | None, int | None]] = []
    for label in sorted(set(labels), key=_natural):
        head, number = _split_number(label)
        last = folded[-1] if folded else None
        if last and number is not None and last[2] is not None and last[0] == head and number == last[2] + 1:
            folded[-1] = (head, last[1], number)
        else:
            folded.append((head, number, number))
    return ", ".join(_run(*one) for one in folded)


def _split_number(label: str) -> tuple[str, int | None]:
    # A zero before other digits belongs to a name (host01), and so stays in the head.
    found = re.fullmatch(r"(.*?)(0|[1-9][0-9]{0,8})", label, re.DOTALL | re.ASCII)
    return (found.group(1), int(found.group(2))) if found else (label, None)


def _natural(label: str) -> tuple[str, int]:
    head, number = _split_number(label)
    return head, -1 if number is None else number


def _run(head: str, first: int | None, last: int | None) -> str:
    if first is None:
        return head
    if first == last:
        return f"{head}{first}"
    short = head.rsplit(" ", 1)[-1]
    return f"{head}{first}-{short}{last}"
