"""One picture per member: phase, mechanism, whom it waits for, and whether it moves."""

from __future__ import annotations

from msgspec.structs import replace

from ..engines.meanings import Meaning, meaning
from ..engines.roles import title_phase
from ..model.launch import Member
from ..model.sample import Stack, Thread
from ..model.words import ROLES, Phase
from . import floors
from .calls import name_of
from .closer import closer
from .crash import how
from .mechanisms import ended, explained, halted
from .movement import mostly_idle, movement, of_helpers
from .tracks import Track
from .view import Picture, View

# Calls in which Python's subprocess waits for a child or for its output.
_MAY_BE_FOR_CHILDREN = ("wait4", "waitid", "poll", "ppoll", "select", "pselect6", "read", None)


def picture(view: View, track: Track) -> Picture:
    """What the member of `track` is doing, by everything that was seen of it."""
    member, process = track.member, track.process
    thread, stack = thread_of_interest(view, track)
    means = meaning(stack, view.profile) if stack is not None else Meaning()
    now = view.history.now
    moved = movement(track, view.logbook.news(member), view.profile, now)
    if moved.moves is False and (may_wait_for_children(view, track, thread, means) or for_one_to_come(view, means)):
        moved = of_helpers(view.history.helpers_below(process.pid), now) or moved
    if stack is not None and mostly_idle(track, view.profile, stack.tid, now - floors.STILL_S):
        means = replace(means, idle=True)
    known = track.threads.get(thread.tid) if thread else None
    base = Picture(
        member,
        phase_of(view, member, means),
        "unknown",
        "its threads could not be read",
        moved.moves,
        moved.quiet_s,
        since_s=track.threads_at - known.in_place_since if known else None,
        channels=moved.channels,
        stack=stack,
        means=means,
        tid=thread.tid if thread else None,
        nstid=thread.nstid if thread else None,
    )
    if track.gone is not None or track.died is not None or ended(process):
        return replace(
            base, mechanism="dead", detail=f"it {how(process.exit_code)}", moving=False, definite=True, stack=None
        )
    host = view.history.lost(member.pid)
    if host is not None:
        return replace(
            base, detail=f"its host {host.host} cannot be reached any more", moving=None, stack=None, lost=True
        )
    stopped = halted(view, track, base)
    if stopped is not None:
        return _settled(stopped)
    if thread is None:
        return replace(base, waits_for=means.waits_for, idle=means.idle)
    found = closer(explained(view, track, thread, means, base), track, view.arch)
    return _settled(found)


def _settled(one: Picture) -> Picture:
    """What one that is stuck did before that is no movement: it did it in the same window, and does it no more."""
    return replace(one, moving=False, channels=()) if one.stuck else one


def may_wait_for_children(view: View, track: Track, thread: Thread | None, means: Meaning) -> bool:
    """Whether its frames say that it waits for processes of its own, or its stack is not to be had and its call may be that."""
    if means.mechanism is not None or means.waits_for is not None:
        return means.waits_for == "children" or means.mechanism == "child-wait"
    return not track.last_stacks and (thread is None or name_of(thread.syscall, view.arch) in _MAY_BE_FOR_CHILDREN)


def for_one_to_come(view: View, means: Meaning) -> bool:
    """Whether its frames say that it waits for a role that no member has yet: until they bear their titles, those that
    will have it are helpers. Imports alone keep them for longer than a still member is given."""
    return means.waits_for in ROLES and not any(one.role == means.waits_for for one in view.launch.members.values())


def thread_of_interest(view: View, track: Track) -> tuple[Thread | None, Stack | None]:
    """The thread that the start depends on: the main one, unless it idles by design while another Python thread is in a
    step of the start (SGLang's warm-up runs in a thread of the launcher)."""
    threads = track.process.threads or {}
    main = threads.get(track.process.pid)
    stacks = {stack.tid: stack for stack in track.last_stacks if stack.tid is not None}
    main_stack = stacks.get(track.process.pid) or next((s for s in track.last_stacks if s.name == "MainThread"), None)
    if main_stack is not None:
        means = meaning(main_stack, view.profile)
        if means.idle:
            for stack in stacks.values():
                other = meaning(stack, view.profile)
                if stack is not main_stack and other.phase is not None and not other.idle and stack.tid in threads:
                    return threads[stack.tid], stack
    return main, main_stack


def phase_of(view: View, member: Member, means: Meaning) -> Phase | None:
    """The furthest phase that its stack, its own log lines or its title put it into; a start only goes forward."""
    written = view.written(member).phase(view.phases)
    titled = title_phase(member.title, view.profile)
    found = [phase for phase in (means.phase, written, titled) if phase is not None and phase in view.phases]
    return max(found, key=view.phases.index) if found else None
