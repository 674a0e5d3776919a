"""How a launch ended: who ended first and how, what speaks for the OOM killer, the first traceback, everybody's last line."""

from __future__ import annotations

from collections.abc import Sequence

from ..engines import lines
from ..model import report as r
from ..model.launch import Member
from ..model.places import own
from .logbook import writer_of_traceback
from .view import Picture, View

# signal(7); numbers that differ between machines (SIGBUS and the like) are those of x86-64 and aarch64.
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
    31: "SIGSYS",
}  # fmt: skip
# Launchers end what is left of a launch all at once: ends closer together than this may have one cause.
_TOGETHER_S = 0.2
_ASKED = 15  # SIGTERM
_LINE = 400


def signal_of(status: int | None) -> int | None:
    """The signal in a wait status (wait(2)); None when it ended by itself or nobody knows."""
    return (status & 0x7F) or None if status is not None else None


def how(status: int | None) -> str:
    """A wait status in words that follow "it"."""
    if status is None:
        return "ended; how could not be seen"
    number = signal_of(status)
    if number is None:
        return f"ended with status {status >> 8 & 0xFF}"
    name = SIGNALS.get(number)
    return f"was killed by signal {number}" + (f" ({name})" if name else "")


def ended_at(view: View, pid: int) -> float | None:
    """Monotonic instant of a member's end: as it happened, else when it was first missed or became a zombie.

    None when it was a zombie at the first look already.
    """
    track = view.history.tracks[pid]
    if track.died is not None:
        return track.died
    if track.process.state in ("Z", "X"):
        return track.state_since if track.state_since > track.first else None
    return track.gone


def first_to_end(view: View, dead: Sequence[Picture]) -> list[Picture]:
    """Of the members that ended, the one that ended first: the others are its cascade.

    When they ended all at once, a launcher has cleared up: then the one that wrote the first traceback is meant, unless that
    is about another one. Without instants to compare, everyone that a signal ended, else everyone.
    """
    timed = sorted(
        ((at, one) for one in dead if (at := ended_at(view, one.member.pid)) is not None), key=lambda pair: pair[0]
    )
    if len(timed) < 2 or len(timed) < len(dead):
        killed = [one for one in dead if signal_of(view.history.tracks[one.member.pid].process.exit_code)]
        return killed or list(dead)
    together = [one for at, one in timed if at - timed[0][0] <= _TOGETHER_S]
    if len(together) > 1:
        first = view.logbook.traceback
        echo = first is not None and lines.is_echo(first.exception, view.profile)
        wrote = None if echo else writer_of_traceback(view.logbook, view.launch)
        named = [one for _, one in timed if wrote is not None and one.member.pid == wrote.pid]
        below = [one for one in together if one.member.pid != view.launch.root]
        # Who clears up asks with SIGTERM first: an end of another kind was not asked for.
        unasked = [one for one in below if signal_of(view.history.tracks[one.member.pid].process.exit_code) != _ASKED]
        return named or unasked[:1] or below[:1] or together[:1]
    return together


def oom(view: View) -> list[str]:
    """What speaks for a process killed for want of memory: the kernel's log, and the counters of the members' cgroups."""
    facts, pids = view.history.facts, set(view.history.tracks)
    told = [line for one in facts.values() for line in one.kernel_log if line.kind == "oom" and line.pid in pids]
    found = [f"kernel log: {line.text}" for line in told]
    groups = [(place, name, cgroup) for place, one in facts.items() for name, cgroup in one.cgroups.items()]
    for place, name, cgroup in groups:
        before = view.history.first_facts[place].cgroups.get(name)
        if before is None or cgroup.oom_kills is None or before.oom_kills is None:
            continue
        more = cgroup.oom_kills - before.oom_kills
        if more > 0:
            found.append(f"cgroup {name} counted {more} OOM kill{'s' if more > 1 else ''} since the look began")
    return found


def triage(view: View, pictures: Sequence[Picture]) -> r.Crash:
    """Everything that is known of the end: who ended first, as `first_to_end` has it, then the others in their order."""
    now = view.history.now
    dead = [(ended_at(view, one.member.pid), one) for one in pictures if one.mechanism == "dead"]
    dead = [(at, one) for at, one in dead if one.member.needed or view.history.tracks[one.member.pid].process.exit_code]
    first = {one.member.pid for one in first_to_end(view, [one for _, one in dead])}
    dead.sort(key=lambda pair: (pair[1].member.pid not in first, pair[0] is None, pair[0] or 0.0))
    rows = []
    for at, one in dead:
        status = view.history.tracks[one.member.pid].process.exit_code
        number = signal_of(status)
        rows.append(
            r.EndedRow(
                view.history.host_of(one.member.pid), own(one.member.pid), one.member.role, str(one.member.rank),
                one.member.needed, how(status),
                status >> 8 & 0xFF if status is not None and number is None else None, number,
                round(now - at, 2) if at is not None else None,
            )
        )  # fmt: skip
    return r.Crash(rows, oom(view), _traceback(view), _last_lines(view))


def _traceback(view: View) -> r.CrashTraceback | None:
    found = view.logbook.tracebacks
    if found.first is None:
        return None
    member = writer_of_traceback(view.logbook, view.launch)
    role, rank = (member.role, member.rank) if member else (found.first.writer.role, found.first.writer.rank)
    return r.CrashTraceback(role, str(rank), found.first.exception, list(found.text), max(0, found.count - 1))


def _last_lines(view: View) -> list[r.LastLine]:
    now = view.history.last.at if view.history.last else 0.0
    writers: list[tuple[Member | None, str, float | None]] = [
        (view.launch.members.get(pid), one.last_line, one.last_line_at)
        for pid, one in view.logbook.by_member.items()
        if one.last_line
    ]
    others = view.logbook.others
    if others.last_line:
        writers.append((None, others.last_line, others.last_line_at))
    writers.sort(key=lambda one: (one[2] is None, one[2] or 0.0))
    return [
        r.LastLine(
            member.role if member else None,
            str(member.rank) if member else "",
            own(member.pid) if member else None,
            text[:_LINE],
            round(max(0.0, now - at), 1) if at is not None else None,
        )
        for member, text, at in writers
    ]
