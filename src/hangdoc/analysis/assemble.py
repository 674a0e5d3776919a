"""The report put together from the judgement: rows and sentences, no judging."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import report as r
from ..model.places import own, place_of
from ..model.sample import Stack, Thread
from . import channels, compare
from .advice import deep_step, disproof, fix_of, next_steps
from .closer import alarms, step_reasons, told, with_native
from .crash import triage
from .history import package_version
from .judge import Judgement, furthest_behind, phase_since
from .links import Edge
from .ports import by_host, may_serve
from .stacks import tree
from .view import Picture, View

_TAIL = 12
_TITLE = 160
# Gloo's run loop waits with the time-out of its process group (seen with torch 2.13 and 2.14).
_TIME_OUT_THREADS = ("pt_gloo_runloop",)


def assemble(
    view: View | None,
    pictures: Sequence[Picture],
    edges: Sequence[Edge],
    judgement: Judgement,
    version: str,
    mode: str,
    *,
    ended: bool,
    whole: bool = True,
) -> r.Report:
    """One report. Without a view (no launch was seen) it says only that; without `whole` it has none of the tables that
    only a report of its own shows: stacks, waits, progress, the good starts that it was compared with."""
    if view is None:
        about = r.About(version, 0.0, 0, 0.0, mode)
        return r.Report(about, "undecided", "hint", summary(None, judgement, pictures), r.Engine("unknown"))
    history = view.history
    last = history.last
    about = r.About(
        version, last.at if last else 0.0, history.samples, round(history.window, 2), mode, provisional=not ended
    )
    groups = _groups(pictures)
    culprits = judgement.culprits
    named = culprits[0] if culprits else None
    return r.Report(
        hangdoc=about,
        verdict=judgement.verdict,
        confidence=judgement.confidence,
        summary=summary(view, judgement, pictures),
        engine=_engine(view),
        reasons=_reasons(view, judgement),
        next=_next(view, judgement),
        disprove=disproof(named)
        if named and judgement.verdict in ("suspect", "hung") and judgement.confidence != "certain"
        else None,
        phase=_phase(view, judgement),
        clocks=_clocks(view, judgement, pictures),
        processes=[_process(view, one) for one in pictures],
        logs=_logs(view),
        ports=_ports(view),
        culprits=[_culprit(view, one, judgement, edges) for one in culprits],
        ranks=[
            r.RankRow(
                history.host_of(p.member.pid),
                own(p.member.pid),
                p.member.role,
                str(p.member.rank),
                p.phase,
                p.mechanism,
                groups[p.member.pid],
                p.since_s,
                p.quiet_s if p.moving is not None else None,
            )
            for p in pictures
            if p.member.needed
        ],
        stacks=tree(_stacks(view, pictures)) if whole else [],
        waits=[_wait(view, one) for one in edges] if whole else [],
        crash=triage(view, pictures) if judgement.verdict == "crashed" else None,
        undecided=[r.UndecidedCause("verdict", list(judgement.missing))] if judgement.missing else [],
        baseline=compare.row(view, judgement.behind) if whole else None,
        progress=channels.rows(view, pictures) if whole else [],
        unseen=[
            r.UnseenRow(
                one.host or (history.host_of(one.pid) if one.pid is not None else view.launch.host),
                own(one.pid) if one.pid is not None else None,
                one.probe,
                one.reason,
                one.detail,
                fix_of(one),
            )
            for one in history.unseen.values()
        ],
        cost=r.CostRow(round(history.wall_s, 3), round(history.cpu_s, 3), _paused(view)),
    )


def _reasons(view: View, judgement: Judgement) -> list[str]:
    """The evidence of the verdict, and what --deep told and did; what it changed comes first."""
    one, history = judgement.behind, view.history
    more = told(one, history.tracks[one.member.pid]) if one is not None and not judgement.culprits else []
    return [*alarms(history.deep), *judgement.reasons, *more, *step_reasons(history.deep)]


def _next(view: View, judgement: Judgement) -> list[str]:
    """What to do about the culprit, and what --deep would add where that would matter."""
    named = judgement.culprits[0] if judgement.culprits else None
    steps = next_steps(named) if named else []
    one = named or (judgement.behind if judgement.verdict == "undecided" else None)
    more = deep_step(one) if one is not None and not view.history.deep else None
    return [more, *steps] if more else steps  # evidence first; what a step below may change comes after it


def _stacks(view: View, pictures: Sequence[Picture]) -> list[tuple[str, Stack]]:
    found = ((one, with_native(one, view.history.tracks[one.member.pid])) for one in pictures if one.member.needed)
    return [(one.member.label, stack) for one, stack in found if stack is not None]


def summary(view: View | None, judgement: Judgement, pictures: Sequence[Picture]) -> str:
    """One sentence: what the launch is doing, or who keeps it from going on."""
    if view is None:
        return "no launch was seen"
    name = view.profile.name
    phase = f" in phase {judgement.phase}" if judgement.phase else ""
    victims = sum(1 for one in pictures if one.member.needed and one.victim)
    if judgement.culprits:
        one = judgement.culprits[0]
        who = one.member.who
        others = f" and {len(judgement.culprits) - 1} more like it" if len(judgement.culprits) > 1 else ""
        frame = one.frame
        where = f", in {frame.function} ({frame.short or frame.file}:{frame.line})" if frame else ""
        wait = (
            f"; {victims} other{'s' if victims > 1 else ''} wait{'s' if victims == 1 else ''} for it" if victims else ""
        )
        words = {"hung": "is hung", "suspect": "may be stuck", "crashed": "has crashed"}
        state = words.get(judgement.verdict, judgement.verdict)
        return f"{name} {state}{phase} because of {who}{others}: {one.detail}{where}{wait}."
    if judgement.verdict == "ready":
        return f"{name} is ready: {judgement.reasons[0]}."
    if judgement.verdict in ("progressing", "slow"):
        late = ", longer than such a phase should take" if judgement.verdict == "slow" else ""
        rest = channels.left(view)
        return f"{name} is starting{phase}{late}: {judgement.reasons[0]}{'; ' + rest if rest else ''}."
    why = "; ".join(judgement.missing) or "nothing moved and nothing is known to be stuck"
    return f"Too little was seen of {name}{phase} to judge: {why}."


def _engine(view: View) -> r.Engine:
    modified = sorted({path for track in view.history.tracks.values() for path in track.process.modified or ()})
    return r.Engine(
        view.launch.engine,
        view.launch.version or package_version(view.history, view.profile),
        dict(view.launch.args),
        modified,
    )


def _phase(view: View, judgement: Judgement) -> r.PhaseNow | None:
    if judgement.phase is None or judgement.phase not in view.phases:
        return None
    place = view.phases.index(judgement.phase)
    spec = view.order[place]
    since = phase_since(view, judgement.behind) if judgement.behind else None
    late = compare.lateness(view, judgement.behind) if judgement.behind else None
    ceiling = "ceiling of the engine's profile" + (f": {view.unmatched}" if view.unmatched else "")
    expected, basis = (late.after_s, late.words) if late else (spec.ceiling_s, ceiling)
    since = late.now_s if late else since
    due = compare.overdue_line(view, view.beside.baseline, judgement.behind) if view.beside else None
    next_line = due[0].text.replace("#", "…") if due else spec.next_line or None
    return r.PhaseNow(judgement.phase, since, expected, place + 1, len(view.order), next_line, basis)


def _clocks(view: View, judgement: Judgement, pictures: Sequence[Picture]) -> r.Clocks:
    history, now = view.history, view.history.now
    root = history.tracks.get(view.launch.root)
    age = history.last.boot - root.process.start if root and history.last else None
    mtimes = [state.log.mtime for state in view.logbook.states.values() if state.log.mtime is not None]
    since_log = max(0.0, history.last.at - max(mtimes)) if mtimes and history.last else None
    behind = judgement.behind or furthest_behind(view, [one for one in pictures if one.member.needed])
    quiet = behind.quiet_s if behind else None
    ahead = [thread.deadline - now for thread in _doomed(view) if thread.deadline is not None]
    return r.Clocks(age, quiet, since_log, channels.since_progress(view, behind), min(ahead, default=None))


def _doomed(view: View) -> list[Thread]:
    """Threads whose timed wait is a group's time-out, which ends the launch when it passes."""
    everyone = (thread for track in view.history.tracks.values() for thread in (track.process.threads or {}).values())
    now = view.history.now
    return [
        one for one in everyone if one.name in _TIME_OUT_THREADS and one.deadline is not None and one.deadline > now
    ]


def _process(view: View, one: Picture) -> r.ProcessRow:
    track = view.history.tracks[one.member.pid]
    process, written = track.process, view.written(one.member)
    rate = track.cpu_rate(view.history.now - one.judged_s)
    age = view.history.last.at - written.last_line_at if written.last_line_at and view.history.last else None
    return r.ProcessRow(
        view.history.host_of(process.pid), own(process.pid), process.nspid[-1] if len(process.nspid) > 1 else None,
        own(process.ppid), one.member.role,
        one.member.needed, (one.member.title or " ".join(process.cmdline or ()) or process.comm)[:_TITLE], process.state,
        round(rate * 100, 1) if rate is not None else None, process.rss, process.num_threads, one.phase,
        written.last_line[:400] or None, age,
    )  # fmt: skip


def _logs(view: View) -> list[r.LogRow]:
    rows, history = [], view.history
    for state in view.logbook.states.values():
        log = state.log
        grew = history.last.at - log.mtime if log.mtime is not None and history.last else None
        rows.append(r.LogRow(log.path, log.via, log.lines, log.size, grew, list(state.tail)[-_TAIL:], log.note))
    return rows


def _ports(view: View) -> list[r.PortRow]:
    head, wanted = place_of(view.launch.root), view.launch.port
    everywhere = by_host(view)
    host, found = view.history.host_of(view.launch.root), everywhere.get(head, {})
    rows = [
        r.PortRow(
            view.history.host_of(pid),
            port,
            own(pid),
            f"taken by {view.history.tracks[pid].member.label}" if taken else "LISTEN",
            _health(view, port) if place == head else None,
        )
        for place, ports in sorted(everywhere.items())
        for port, pid in ports.items()
        if pid is not None
        for taken in (place == head and port == wanted and not may_serve(view, pid),)
    ]
    if wanted is not None and view.launch.head and found.get(wanted) is None:
        health = _health(view, wanted)
        state = "taken by a process outside the launch" if wanted in found else "not listening"
        if wanted not in found and (health or "").isdigit():  # it began to listen after the sockets were looked at
            state = "LISTEN"
        rows.append(r.PortRow(host, wanted, None, state, health))
    return sorted(rows, key=lambda row: row.port)


def _health(view: View, port: int) -> str | None:
    answer = view.history.health.get(port)
    return None if answer is None else str(answer[1]) if answer[1] is not None else answer[2]


def _culprit(view: View, one: Picture, judgement: Judgement, edges: Sequence[Edge]) -> r.Culprit:
    frame = one.frame
    place = r.Place(frame.file, frame.line, frame.function) if frame else None
    return r.Culprit(
        view.history.host_of(one.member.pid), own(one.member.pid), own(one.tid) if one.tid is not None else None, one.nstid,
        one.member.role, str(one.member.rank), one.phase or judgement.phase,
        one.mechanism, one.detail, place, one.since_s, _object(view, one, edges), judgement.confidence,
    )  # fmt: skip


def _object(view: View, one: Picture, edges: Sequence[Edge]) -> str | None:
    """What a culprit waits for beyond itself: a path and its holder, a child, a thread."""
    holders = [
        f"process {own(pid)}" + (f" ({view.launch.members[pid].label})" if pid in view.launch.members else "")
        for edge in edges
        if edge.leads and edge.pid == one.member.pid
        for pid, _ in edge.targets
        if pid != one.member.pid
    ]
    if one.object is None:
        return ", ".join(holders) or None
    return f"{one.object}, held by {', '.join(holders)}" if holders and one.mechanism == "file-lock" else one.object


def _wait(view: View, edge: Edge) -> r.Wait:
    targets = [_end(view, pid, tid) for pid, tid in edge.targets] or None
    left = edge.deadline_s - view.history.now if edge.deadline_s is not None else None
    return r.Wait(_end(view, edge.pid, edge.tid), targets, edge.via, edge.any, edge.object, left, edge.certainty)


def _end(view: View, pid: int, tid: int | None) -> r.End:
    return r.End(view.history.host_of(pid), own(pid), own(tid) if tid is not None else None)


def _paused(view: View) -> dict[str, float]:
    """How long each process was stopped; its host stands before it where there are several."""
    history = view.history
    return {
        (f"{history.host_of(pid)}:" if len(history.places) > 1 else "") + str(own(pid)): ms
        for pid, ms in history.paused_ms.items()
    }


def _groups(pictures: Sequence[Picture]) -> dict[int, int]:
    """Equal pictures share a number: role, phase, mechanism and innermost function."""
    numbers: dict[tuple[object, ...], int] = {}
    groups = {}
    for one in pictures:
        groups[one.member.pid] = numbers.setdefault(one.shape, len(numbers) + 1)
    return groups
