"""What a watch looks at in which tick: cheap facts every second, dear ones only of members that are still or behind.

Pure: instants and what was seen go in, a plan comes out. All times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from ..analysis import floors
from ..analysis.arrivals import Source
from ..analysis.movement import compiles
from ..analysis.tracks import Track
from ..model.words import Phase

TICK_S = 1.0  # processes
LOGS_S = 2.0
QUIET_LOGS_S = 5.0  # of logs that have not grown for some time, or when no member has written anything
THREADS_S = 5.0  # threads of every needed member that moves, and of who is behind
HEALTH_S = 5.0  # SGLang's health check runs a token
EARLY_HEALTH_S = 15.0  # before the port can be open
FRESH_S = 2.5  # a member that has just become still: its threads every tick, so that it is known since when each is where it is
REST = 2  # ticks without a move after which it is asked what a member waits for: most pauses are shorter
STACKS_S = 4.0  # of who is behind, or spends CPU that no counter explains: three looks in any window of judging
STACKS_AT_ONCE = 16  # members whose stacks are asked in one tick: the others have their turn in the next ones
SELDOM_S = 30.0  # file systems: downloads, weights, lock files; half as often while counters tell all
FETCH_S = 10.0  # the same while files come in by a download, or by a compiler and nothing else moves: that is progress
CALM_S = 30.0  # threads and stacks of others that are still
AROUND_S = 60.0  # descriptors and sockets of everybody
SURROUNDINGS_S = 5.0  # host facts, and the descriptors of who is behind and still
COUNTED_S = 4.0  # a counter that moved so recently explains a member's CPU time
# The launch waits for so long for who is still before its stack is asked while another one is seen to move, as where
# one rank compiles and the others wait. A suspect must not have moved for longer (floors.STILL_S).
PATIENCE_S = 8.0
NEARLY = 0.5  # share of the judge's floor from which on the CPU time of who is behind is looked into
IDLE_CPU = 0.1  # CPU seconds per second below which a member may have come to a stop; the judge's floor is lower
FILES: frozenset[Phase] = frozenset({"download", "weight-load"})  # files tell then how far it is
LATE: frozenset[Phase] = frozenset({"graph-capture", "frontend-init", "http-listen", "warmup", "ready"})


def may_listen(engine: str, phase: Phase | None, reached: Collection[Phase | None]) -> bool:
    """Whether the port may be open: always with an engine that nobody knows, and before a `phase` is. Who is furthest
    behind may have said its last long ago and be done, so where any member has come to tells (`reached`)."""
    return engine in ("", "unknown") or phase is None or bool(LATE.intersection(reached))


class Plan(msgspec.Struct, frozen=True):
    """One question to the agent."""

    probes: tuple[str, ...]
    thread_pids: tuple[int, ...] = ()
    stack_pids: tuple[int, ...] = ()
    wait_pids: tuple[int, ...] = ()  # whose blocked calls are decoded, which takes a child of the agent


class Cadence(msgspec.Struct):
    """When each thing was last looked at, and who has been still since when."""

    stacks: bool = True
    still: dict[int, float] = {}
    _asleep: dict[int, int] = {}  # ticks for which the main thread of a still one has not run
    _written: dict[int, int | None] = {}  # bytes of each at the last look at logs
    _logs_at: float = float("-inf")
    _threads_at: float = float("-inf")
    _health_at: float = float("-inf")
    _around_at: float = float("-inf")
    _calm_at: float = float("-inf")
    _host_at: float = float("-inf")
    _seldom_at: float = float("-inf")
    rested: frozenset[int] = (
        frozenset()
    )  # who came to rest in the last tick: their blocked calls are decoded in the next one
    _decoding: frozenset[int] = frozenset()  # whose blocked calls the last plan asks to decode
    # Where the main thread was when the blocked calls were decoded last, and when that was.
    _decoded: dict[int, tuple[tuple[object, ...], float]] = {}
    _late: frozenset[Phase | None] = frozenset()
    _reading: bool = False  # a member is in a phase of FILES
    # Since when each has been the one behind, for a moment at least, without a counter of its own that moved since.
    _awaited: dict[int, float] = {}
    _stuck: int | None = None  # who was behind and still when the surroundings were last looked at
    _stacks_at: dict[int, float] = {}
    _environ: bool = False
    _packages: bool = False
    _machine: bool = False

    def saw(self, tracks: Mapping[int, Track], needed: Iterable[int], behind: int | None = None) -> None:
        """Take note of a tick.

        What a member waits for is asked in the tick after it came to rest: still, and its main thread has not run for
        `REST` ticks. One that wakes and sleeps on waits for nothing that only its memory tells. Where a thread is, and
        since when, the table of threads tells meanwhile: the wait for this look makes no fact younger.

        One that rests where it rested before is left out, unless it is `behind`: servers do so all the time."""
        rested = []
        alive = {pid for pid in needed if pid in tracks and tracks[pid].gone is None and tracks[pid].died is None}
        for pid in self._decoding & alive:
            self._decoded[pid] = (_place(tracks[pid]), tracks[pid].last)
        for pid in alive:
            track = tracks[pid]
            if not _came_to_a_stop(track):
                self.still.pop(pid, None)
                self._asleep.pop(pid, None)
                continue
            self.still.setdefault(pid, track.ticks[-1].at)
            ran = track.ticks[-1].switches != track.ticks[-2].switches
            self._asleep[pid] = 0 if ran else self._asleep.get(pid, 0) + 1
            if self._asleep[pid] == REST and (pid == behind or self._elsewhere(track)):
                rested.append(pid)
        for known in (self.still, self._asleep, self._stacks_at, self._decoded):
            for pid in set(known) - alive:
                del known[pid]
        self.rested = frozenset(rested)

    def came_further(self, reached: Collection[Phase | None], now: Collection[Phase | None]) -> None:
        """Take note of the phases that any member has come to, and of those that they are in `now`: each after which the port
        may be open is a reason to ask for health at once, so that ready is told when it is."""
        self._reading = bool(FILES.intersection(now))
        late = LATE.intersection(reached)
        if late - self._late:
            self._health_at = float("-inf")
        self._late |= late

    def _elsewhere(self, track: Track) -> bool:
        """Whether its main thread is somewhere else than when its blocked calls were decoded last, or that was long ago."""
        place, at = self._decoded.get(track.member.pid, ((), float("-inf")))
        return not place or place != _place(track) or track.last - at >= CALM_S

    def plan(
        self,
        now: float,
        tracks: Mapping[int, Track],
        needed: Collection[int],
        behind: int | None = None,
        pending: Collection[int] = (),
        *,
        near: bool = True,
        grown: float | None = None,
        files: Source | None = None,
    ) -> Plan:
        """What to ask at `now`.

        `behind`: who the launch waits for; `pending`: whose definite facts must prove stable; `near`: the port may be
        open by now; `grown`: when a log last grew; `files`: where files come from.
        """
        alive = [pid for pid in needed if pid in tracks and tracks[pid].gone is None and tracks[pid].died is None]
        counted = {pid for pid in alive if now - _counted(tracks[pid]) <= COUNTED_S}
        self._await(now, behind, {pid: _counted(tracks[pid]) for pid in alive})
        told = behind in counted if behind is not None else bool(counted)  # that the launch goes on, by counters alone
        moving = counted | {pid for pid, one in tracks.items() if compiles(one, now - COUNTED_S)}
        moving = moving if grown is not None else set()
        patience = PATIENCE_S if moving - {behind} else COUNTED_S
        awaited = behind if behind is not None and self._waited(behind, now) > patience else None
        fetching = files == "download" or (files == "compiler" and not told)
        seldom = 2 * SELDOM_S if told and not self._reading else SELDOM_S
        probes = ["processes", *self._around(now, awaited, pending, near=near)]
        if self._logs_due(now, tracks, grown):
            probes.append("logs")
        if not self._environ and tracks:
            self._environ = True
            probes.append("environ")
        elif not self._packages and tracks:  # not at first: reading them takes longer than all else
            self._packages = True
            probes.append("packages")
        elif now - self._seldom_at >= (FETCH_S if fetching else seldom) and tracks:
            self._seldom_at = now
            probes += ["kernel", "storage", *(() if self._machine else ("network", "machine"))]
            self._machine = True
        looked = {pid for pid in alive if now - self.still.get(pid, now - FRESH_S - 1) <= FRESH_S}
        decoded = {pid for pid in alive if pid in pending or pid in self.rested}
        if now - self._threads_at >= THREADS_S:
            self._threads_at = now
            calm = {pid for pid in self.still if pid != behind and pid not in looked}
            looked |= set(alive) - calm
            decoded |= {pid for pid in self.still if pid == behind}
            if now - self._calm_at >= CALM_S:
                self._calm_at = now
                looked |= calm
                decoded |= calm
        due = [
            pid
            for pid in alive
            if self.stacks
            and self._stacks_due(
                now, tracks[pid], behind=pid == behind, awaited=pid == awaited, others_move=bool(moving - {pid})
            )
        ]
        due.sort(key=lambda pid: (pid != behind, pid not in pending, self._stacks_at.get(pid, float("-inf")), pid))
        stacks = set(due[:STACKS_AT_ONCE])
        for pid in stacks:
            self._stacks_at[pid] = now
        looked |= stacks | decoded
        if looked:
            probes.append("threads")
        if stacks:
            probes.append("stacks")
        if self.rested.intersection(alive) and "fds" not in probes:
            probes.append("fds")  # what the numbers in their calls mean
        self._decoding = frozenset(decoded)
        return Plan(tuple(probes), tuple(sorted(looked)), tuple(sorted(stacks)), tuple(sorted(decoded)))

    def _logs_due(self, now: float, tracks: Mapping[int, Track], grown: float | None) -> bool:
        written = {pid: track.ticks[-1].wchar for pid, track in tracks.items() if track.ticks}
        # What a child wrote is counted for its parent once it was waited for (wait_task_zombie() of the kernel).
        same = bool(written) and written == self._written and None not in written.values()
        quiet = same or (grown is not None and now - grown > CALM_S)
        if now - self._logs_at < (QUIET_LOGS_S if quiet else LOGS_S) - TICK_S / 2:
            return False
        self._logs_at, self._written = now, written
        return True

    def _around(self, now: float, awaited: int | None, pending: Collection[int], *, near: bool) -> list[str]:
        probes = []
        if now - self._health_at >= (HEALTH_S if near else EARLY_HEALTH_S):
            self._health_at = now
            probes.append("health")
        still = awaited is not None and now - self.still.get(awaited, now) > COUNTED_S
        stuck = awaited if still else min(pending, default=None)
        if now - self._around_at >= AROUND_S or (stuck is not None and stuck != self._stuck):
            self._around_at = self._host_at = now
            self._stuck = stuck
            probes += ["fds", "sockets", "host"]
        elif stuck is not None and now - self._host_at >= SURROUNDINGS_S:
            self._host_at = now
            probes.append("host")
        return probes

    def _await(self, now: float, behind: int | None, counted: Mapping[int, float]) -> None:
        """Take note of who is behind. `counted`: when a counter of each one alive last moved."""
        self._awaited = {
            pid: since for pid, since in self._awaited.items() if now - counted.get(pid, now) > 1.5 * TICK_S
        }
        if behind is not None:
            self._awaited.setdefault(behind, now)

    def _waited(self, pid: int, now: float) -> float:
        """Seconds for which the launch has waited for it. Who is behind may be so for a moment only, while another one is about
        to say how far it has come."""
        return now - self._awaited.get(pid, now)

    def _stacks_due(self, now: float, track: Track, *, behind: bool, awaited: bool, others_move: bool) -> bool:
        pid = track.member.pid
        last, since = self._stacks_at.get(pid, float("-inf")), self.still.get(pid)
        quiet = now - _counted(track) > COUNTED_S
        if now - last < STACKS_S - TICK_S / 2:
            return False  # one that stops and goes on all the time is no reason for one at each stop
        rests = since is not None and now - since >= REST * TICK_S
        if since is not None and rests and last < since and (awaited or not others_move):
            return True  # what was seen of it is from before it came to a stop
        if others_move:  # the launch goes on, whatever this one does; once all are quiet there is time for three looks
            stopped = since if since is not None else _counted(track)
            return (rests or quiet) and now - (last if awaited else max(last, stopped)) >= CALM_S
        main = track.threads.get(pid)
        # Its other threads run: on what? Of who is behind that is asked before the judge has to know it.
        floor = floors.CPU * (NEARLY if behind else 1.0)
        spends = (track.cpu_rate(now - floors.STILL_S) or 0) > floor
        if since is not None and main is not None and main.not_run_since <= last and not spends:
            return now - last >= 2 * CALM_S  # it has not run since, so its stack is the same
        if (behind and (quiet or since is not None)) or (since is None and quiet):
            return True  # only its stacks tell on what it spends its time
        return rests and now - last >= CALM_S


def _counted(track: Track) -> float:
    """When a counter of it last moved that tells of progress by itself."""
    return max((at for channel, at in track.moved.items() if channel != "cpu"), default=track.first)


def _place(track: Track) -> tuple[object, ...]:
    """Where its main thread is blocked; empty where that is not known."""
    main = track.threads.get(track.member.pid)
    return main.place if main is not None and main.blocked else ()


def _came_to_a_stop(track: Track) -> bool:
    if len(track.ticks) < 2:
        return False
    before, last = track.ticks[-2], track.ticks[-1]
    rate = (last.cpu - before.cpu) / max(last.at - before.at, 0.001)
    return rate < IDLE_CPU and all(at < last.at for at in track.moved.values())
