"""The verdict: the first of the seven that holds, in the order of docs/report.md, with its evidence."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ..model.words import Certainty, Mechanism, Phase, Verdict
from . import compare, floors, nodes, quantiles
from .crash import first_to_end, oom
from .links import Edge
from .mechanisms import blind
from .ports import listeners
from .silence import silence
from .structure import depth, tells_nothing
from .view import Picture, View
from .waits import chain, chain_words


class Judgement(msgspec.Struct, frozen=True):
    """A verdict and what it rests on."""

    verdict: Verdict
    confidence: Certainty
    culprits: tuple[Picture, ...] = ()
    behind: Picture | None = None  # the member furthest behind
    phase: Phase | None = None
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # facts without which nothing more can be said
    pending: tuple[Picture, ...] = ()  # of members with a definite fact that has not been stable for long enough yet


def judge(view: View, pictures: Sequence[Picture], edges: Sequence[Edge] = (), *, ended: bool = False) -> Judgement:
    """Judge every needed member. `ended` says that no more samples will come: stillness is then judged as it is."""
    needed = [one for one in pictures if one.member.needed]
    found = _judge(view, needed, edges, ended=ended)
    elsewhere = nodes.away(view)
    if elsewhere is not None and (found.verdict != "ready" or not view.launch.head):
        told = any(elsewhere.names and elsewhere.names in reason for reason in (*found.reasons, *found.missing))
        found = found if told else replace(found, reasons=(*found.reasons, elsewhere.words))
    return found if found.phase is not None else replace(found, phase=_earliest(view, needed))


def _earliest(view: View, pictures: Sequence[Picture]) -> Phase | None:
    """The phase of the member furthest behind among those whose phase is known; those that idle count only without others."""
    known = [(one.idle, view.phases.index(one.phase)) for one in pictures if one.phase in view.phases]
    return view.phases[min(known)[1]] if known else None


def _judge(view: View, needed: Sequence[Picture], edges: Sequence[Edge], *, ended: bool) -> Judgement:
    dead = _dead(view, needed)
    if dead is not None:
        return dead
    definite = [one for one in needed if one.definite]
    stable = [one for one in definite if one.stuck]
    if stable:
        return _because(view, "hung", "certain", stable, [_said(one) for one in stable])
    answered = _ready(view, needed)
    if answered is not None:
        return answered
    behind = furthest_behind(view, [one for one in needed if not one.lost], edges)
    if behind is None:
        return Judgement("undecided", "hint", missing=("no needed member of the launch could be looked at",))
    beside = compare.lateness(view, behind)
    late = _overdue(view, needed, behind, beside)
    found = Judgement("undecided", "hint", behind=behind, phase=behind.phase, pending=tuple(definite))
    who = behind.member.who
    if behind.moving:
        moves = (f"{who} moves: {', '.join(behind.channels)}", *([beside.words] if beside and beside.overdue else ()))
        return replace(found, verdict="slow" if late else "progressing", confidence="likely", reasons=moves)
    missing = _missing(view, behind) or nodes.may_be_elsewhere(view, behind)
    if missing:
        return replace(found, missing=missing)
    watched = min(view.history.window, behind.quiet_s, _its_turn_s(view, behind))
    if watched < floors.STILL_S:
        why = (
            f"nothing of {who} and no phase of the start moved for {watched:.0f} s, which is too short to call it still"
        )
        return replace(found, reasons=(why,), missing=("two looks 15 s apart" if ended else "more time",))
    quiet = silence(view, behind, ended=ended)
    hung = late and quiet >= floors.SILENT_S
    culprits = culprits_of(needed, behind)
    reasons = [_said(one) for one in culprits]
    reasons.append(f"no progress and no work of {who} for {watched:.0f} s")
    reasons += [beside.words] if beside and beside.overdue else []
    reasons += [] if hung or not late else [f"silent for {quiet:.0f} s; healthy starts are for up to 40 s"]
    reasons += [said for said in (_sibling(view, needed, behind), compare.familiar(view, behind)) if said]
    way = chain(edges, view.launch.root, behind.member.pid)
    if way:
        reasons.append(chain_words(way, behind.member.pid, {one.member.pid: one.member.label for one in needed}))
    reasons += [
        f"shared-memory ring {ring.name}: reader {reader} has left all {ring.chunks} chunks unread"
        for ring in view.history.rings
        for reader, unread in enumerate(ring.unread)
        if unread >= ring.chunks
    ]
    result = _because(view, "hung" if hung else "suspect", "likely" if hung else "hint", culprits, reasons)
    return replace(result, behind=behind)


def _its_turn_s(view: View, behind: Picture) -> float:
    """Seconds for which it has not waited for the others: since the launch's last new phase, or in one wait that leads
    out of the launch."""
    outside = behind.since_s if behind.mechanism in _OUTSIDE and not behind.victim else None
    return max(compare.since_phase(view), outside or 0.0)


def _said(one: Picture) -> str:
    return f"{one.member.who}: {one.detail}"


def _because(
    view: View, verdict: Verdict, confidence: Certainty, culprits: Sequence[Picture], reasons: Sequence[str]
) -> Judgement:
    phase = _earliest(view, culprits)
    return Judgement(verdict, confidence, tuple(culprits), culprits[0] if culprits else None, phase, tuple(reasons))


def _dead(view: View, needed: Sequence[Picture]) -> Judgement | None:
    dead = [
        one for one in needed if one.mechanism == "dead" and (one.member.title or view.written(one.member).seen_pid)
    ]
    dead = first_to_end(
        view, dead or [one for one in needed if one.mechanism == "dead" and one.member.pid == view.launch.root]
    )
    if not dead:
        return None
    reasons = [_said(one) for one in dead]
    if view.launch.engine == "unknown" and all(
        view.history.tracks[one.member.pid].process.exit_code == 0 for one in dead
    ):
        missing = ("whether it was a server at all: it ended by itself, without an error",)
        return Judgement("undecided", "hint", behind=dead[0], reasons=tuple(reasons), missing=missing)
    if view.logbook.traceback is not None:
        reasons.append(f"first error in the log: {view.logbook.traceback.exception}")
    reasons += oom(view)[-2:]
    return _because(view, "crashed", "certain", dead, reasons)


def _ready(view: View, needed: Sequence[Picture]) -> Judgement | None:
    history, head = view.history, view.launch.head
    # What other nodes answer says nothing: SGLang's say 200 always.
    answers = {port: answer for port, answer in history.health.items() if head and port == view.launch.port}
    for port, (_, status, _) in answers.items():
        if (
            status == 200 and listeners(view).get(port, view.launch.root) is not None
        ):  # another server may hold the port
            why = f"the health path answers on port {port}"
            return Judgement("ready", "certain", phase="ready", reasons=(why,))
    ranks = [one for one in needed if one.member.role in ("scheduler", "worker")]
    if not head and ranks and all(one.idle for one in ranks):
        return Judgement(
            "ready", "likely", phase="ready", reasons=("the ranks of this node wait for work in their loop",)
        )
    everyone = (*view.logbook.by_member.values(), view.logbook.others)
    said = min((one.marked["ready"] for one in everyone if "ready" in one.marked), default=None)
    since = [at for port, at in history.health_silent_since.items() if port in answers]
    # Before the line came, silence was as it should be.
    silent = history.now - max(min(since), said) if since and said is not None else 0.0
    if silent >= floors.HEALTH_SILENT_S:
        why = f"the log says that it is ready, but the health path has been silent for {silent:.0f} s"
        culprit = [one for one in needed if one.member.pid == view.launch.root]
        return _because(view, "hung", "likely", culprit, [why])
    return None


def furthest_behind(view: View, needed: Sequence[Picture], edges: Sequence[Edge] = ()) -> Picture | None:
    """The needed member that the launch waits for: the earliest phase among those that do not wait for other members.

    When everyone waits for others, the end of the chain by role. Among equals the one that moves least.
    """
    if not needed:
        return None

    def stillness(one: Picture) -> tuple[int, float]:
        return (0 if one.moving is False else 1 if one.moving is None else 2, -one.quiet_s)

    def place(one: Picture) -> int:
        if one.phase in view.phases:
            return view.phases.index(one.phase)
        return -1 if _has_steps(view, one) else len(view.phases)

    wanted = {pid for edge in edges if edge.leads for pid, _ in edge.targets if pid != edge.pid}
    free = [
        one
        for one in needed
        if not one.victim and not one.idle and (one.definite or one.member.pid in wanted or _has_a_part(view, one))
    ]
    if free:
        return min(free, key=lambda one: (0 if one.definite else 1, place(one), *stillness(one)))
    waiting = [one for one in needed if not one.idle] or list(needed)
    return min(waiting, key=lambda one: (-depth(one.member), *stillness(one), place(one)))


# Not what may be a wait for another member that nobody can name: pipes, queues, events, sleeps that look again.
_OUTSIDE: tuple[Mechanism, ...] = ("socket-connect", "socket-recv", "file-lock", "fifo-open", "terminal-read")
_EVERYBODYS: tuple[Phase, ...] = ("import", "warmup", "ready")


def _has_a_part(view: View, one: Picture) -> bool:
    """Whether the start can depend on it: its role goes through steps of the start, or it is seen in a place of its own.

    A detokenizer has no steps; a wait of it that nobody can name is its own business.
    """
    return _has_steps(view, one) or one.phase is not None or not tells_nothing(one)


def _has_steps(view: View, one: Picture) -> bool:
    return any(one.member.role in spec.roles and spec.id not in _EVERYBODYS for spec in view.order)


def _both_mismatch(one: Picture, other: Picture) -> bool:
    return one.mechanism == other.mechanism == "collective-mismatch"


def culprits_of(needed: Sequence[Picture], behind: Picture) -> list[Picture]:
    """The member furthest behind, with those whose picture is the same: the same phase, mechanism and innermost function."""

    same = [
        one
        for one in needed
        if one.moving is False
        and one.idle == behind.idle
        and (one.shape == behind.shape or _both_mismatch(one, behind))
    ]
    return [behind, *(one for one in same if one is not behind)]


def _overdue(view: View, needed: Sequence[Picture], behind: Picture, beside: compare.Lateness | None) -> bool:
    """By its good starts, where some are on record; else by the ceiling of the engine's profile; or by a sibling rank."""
    if beside is not None:
        return beside.overdue or bool(_sibling(view, needed, behind))
    since = phase_since(view, behind)
    spec = next((one for one in view.order if one.id == behind.phase), None)
    if spec is not None and since is not None and since > spec.ceiling_s:
        return True
    return bool(_sibling(view, needed, behind))


def _sibling(view: View, needed: Sequence[Picture], behind: Picture) -> str:
    """A sentence where a sibling rank left this phase so long ago that waiting is no explanation, else "": a rank that went
    on is a good start of one run.

    Only a line that every rank prints tells that the other one has not come so far; otherwise its own stack must say so.
    """
    if behind.phase is None:
        return ""
    seen_there = behind.means.phase == behind.phase
    place = view.phases.index(behind.phase) if behind.phase in view.phases else -1
    for one in needed:
        if one.member.role != behind.member.role or one.member.pid == behind.member.pid:
            continue
        for mark, at in view.written(one.member).marks:
            told = mark.every_rank or seen_there
            if told and at is not None and mark.phase in view.phases and view.phases.index(mark.phase) > place:
                passed = _wall_now(view) - at
                if passed > quantiles.overdue_after([_duration(view, one, behind.phase)]):
                    return f"{one.member.label} left phase {behind.phase} {passed:.0f} s ago, {behind.member.label} has not"
    return ""


def _duration(view: View, one: Picture, phase: Phase | None) -> float:
    marks = [at for mark, at in view.written(one.member).marks if at is not None]
    began = view.written(one.member).since(phase) if phase is not None else None
    later = [at for at in marks if began is not None and at > began]
    return min(later) - began if later and began is not None else 0.0


def _wall_now(view: View) -> float:
    return view.history.last.at if view.history.last else 0.0


def phase_since(view: View, one: Picture) -> float | None:
    """Seconds that a member has been in its phase, by the time of the mark in its log; None when no line carries one."""
    if one.phase is None:
        return None
    at = view.written(one.member).since(one.phase)
    return max(0.0, _wall_now(view) - at) if at is not None else None


def _missing(view: View, behind: Picture) -> tuple[str, ...]:
    """What would have to be seen to tell whether a member is still; nothing when enough was."""
    track = view.history.tracks[behind.member.pid]
    if behind.definite:
        return ()
    if blind(track):
        why = "neither its system calls nor its stacks could be read, and it may wait by design"
        return (f"what {behind.member.who} does: {why}",)
    if behind.moving is not None:
        return ()
    if len(track.ticks) < 2:
        return (f"a second look at {behind.member.who}",)
    return (f"Python stacks of {behind.member.who}: it spends CPU time, and only stacks tell work from a loop",)
