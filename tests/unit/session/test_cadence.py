"""What is looked at when: cheap facts always, dear ones only of who is still or behind."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis import floors
from hangdoc.analysis.arrivals import Source
from hangdoc.analysis.tracks import ThreadTrack, Tick, Track
from hangdoc.model.launch import Member
from hangdoc.model.sample import Process
from hangdoc.model.words import Phase, Role
from hangdoc.session.cadence import (
    CALM_S,
    COUNTED_S,
    FETCH_S,
    FILES,
    HEALTH_S,
    LOGS_S,
    PATIENCE_S,
    QUIET_LOGS_S,
    SELDOM_S,
    STACKS_AT_ONCE,
    STACKS_S,
    THREADS_S,
    Cadence,
    Plan,
    may_listen,
)

A, B = 1, 2


class Hand:
    """Two members whose CPU time a test sets, looked at once a second."""

    def __init__(self) -> None:
        self.cadence = Cadence()
        self.now = 0.0
        self.cpu = {A: 0.0, B: 0.0}
        self.switches = {A: 0, B: 0}
        self.written = 0
        self.tracks = {
            pid: Track(Member(pid, 0.0, "scheduler"), Process(pid, 0, 0.0, "S", "x"), 0.0, 0.0) for pid in self.cpu
        }

    def second(
        self,
        *,
        busy: tuple[int, ...] = (),
        counted: tuple[int, ...] = (),
        behind: int | None = None,
        others: float = 0.0,  # CPU seconds of the threads of A beside its main thread
        wakes: tuple[int, ...] = (),  # whose main thread runs for a moment
        writes: bool | None = False,  # whether A writes something; None: that may not be seen
        grown: float | None = None,
        place: tuple[object, ...] | None = None,  # where the main thread of A is blocked
    ) -> Plan:
        plan = self.cadence.plan(self.now, self.tracks, [A, B], behind, near=False, grown=grown)
        if place is not None:
            self.tracks[A].threads[A] = ThreadTrack(place, self.now, None, self.now)
        for pid, track in self.tracks.items():
            self.cpu[pid] += (0.9 if pid in busy or pid in counted else 0.0) + (others if pid == A else 0.0)
            self.switches[pid] += pid in busy or pid in counted or pid in wakes
            self.written += pid == A and writes is True
            wchar = None if writes is None else self.written
            tick = Tick(self.now, self.cpu[pid], 0, 0, 0, 0, 0, 0, wchar=wchar, switches=self.switches[pid])
            track.ticks.append(tick)
            track.last = self.now
            if pid in counted:
                track.moved["memory"] = self.now
        self.cadence.saw(self.tracks, [A, B], behind)
        self.now += 1.0
        return plan


def always_enough(looks: list[int], end: int) -> bool:
    """Whether every window of judging from the first look on holds as many looks as judging needs."""
    starts = range(looks[0], end - int(floors.STILL_S))
    return all(sum(start < look <= start + floors.STILL_S for look in looks) >= floors.LOOKS for start in starts)


def test_processes_are_looked_at_every_time() -> None:
    hand = Hand()
    assert all("processes" in hand.second().probes for _ in range(20))


def test_what_moves_by_its_counters_gets_no_stacks_and_threads_only_now_and_then() -> None:
    hand = Hand()
    plans = [hand.second(counted=(A, B)) for _ in range(60)]
    assert not any(plan.stack_pids for plan in plans[2:])
    assert not any(plan.wait_pids for plan in plans[2:])
    assert sum(bool(plan.thread_pids) for plan in plans) <= 60 / THREADS_S + 1


def test_who_becomes_still_is_looked_at_when_it_has_been_so_for_a_tick_more_and_its_stack_then() -> None:
    hand = Hand()
    for _ in range(10):
        hand.second(counted=(A, B))
    plan = hand.second(counted=(B,))
    assert not hand.cadence.rested
    plan = hand.second(counted=(B,))
    assert hand.cadence.rested == {A}
    assert not plan.stack_pids  # of who is behind it would be asked now
    assert A in plan.thread_pids
    plan = hand.second(counted=(B,))
    assert not hand.cadence.rested
    assert plan.stack_pids == plan.wait_pids == (A,)
    assert A in plan.thread_pids
    assert "fds" in plan.probes


def test_what_its_calls_wait_for_is_read_once_its_main_thread_has_not_run_for_two_ticks() -> None:
    hand = Hand()
    for _ in range(10):
        hand.second(counted=(A, B))
    for _ in range(5):
        hand.second(counted=(B,), wakes=(A,))
        assert not hand.cadence.rested
    hand.second(counted=(B,))
    assert not hand.cadence.rested
    hand.second(counted=(B,))
    assert hand.cadence.rested == {A}


def test_who_pauses_for_a_second_now_and_then_is_asked_nothing() -> None:
    hand = Hand()
    for number in range(40):
        plan = hand.second(counted=(A, B) if number % 3 else (B,))
        assert not hand.cadence.rested
        assert not plan.stack_pids or number < 3


def test_who_stops_and_goes_on_all_the_time_gets_no_stack_at_each_stop() -> None:
    hand = Hand()
    plans = [hand.second(counted=(B,) if number % 3 else (A, B)) for number in range(60)]
    assert 3 <= sum(A in plan.stack_pids for plan in plans) <= 60 / STACKS_S


def test_cpu_time_that_no_counter_explains_gets_three_stacks_within_the_window_of_judging() -> None:
    hand = Hand()
    looks = [number for number in range(40) if A in hand.second(busy=(A,), counted=(B,)).stack_pids]
    assert always_enough(looks, 40)


def test_who_is_behind_and_still_is_looked_at_more_often_than_who_only_waits() -> None:
    hand = Hand()
    plans = [hand.second(counted=(), behind=A) for _ in range(120)]
    behind = sum(A in plan.stack_pids for plan in plans)
    waiting = sum(B in plan.stack_pids for plan in plans)
    assert behind >= 120 / (STACKS_S + 1)
    assert waiting <= 120 / CALM_S + 2


def looks_at_a_sleeper(*others: float) -> list[int]:
    """The seconds in which stacks are asked of A, whose main thread sleeps and for which the launch waits, while its other
    threads use so many CPU seconds a second, one after the other."""
    hand = Hand()
    hand.tracks[A].threads[A] = ThreadTrack(("sleep",), 0.0, 1, 0.0)
    share = 120 // len(others)
    return [number for number in range(120) if A in hand.second(behind=A, others=others[number // share]).stack_pids]


def test_a_sleeping_main_thread_is_looked_at_again_as_long_as_other_threads_spend_cpu_time() -> None:
    assert always_enough(looks_at_a_sleeper(2.5 * floors.CPU), 120)


def test_cpu_time_around_the_floor_never_leaves_the_judge_without_stacks() -> None:
    """Gloo's threads of a vLLM worker in state D, seen: 0.019 to 0.025 of a core, and `undecided` for a second now and then."""
    assert always_enough(looks_at_a_sleeper(1.2 * floors.CPU, 0.9 * floors.CPU, 1.2 * floors.CPU), 120)


def test_while_another_member_moves_by_its_counters_stacks_can_wait_and_are_enough_once_all_are_quiet() -> None:
    hand = Hand()
    for _ in range(10):
        hand.second(counted=(A, B), grown=0.0)
    moving = [hand.second(counted=(B,), busy=(A,), behind=A, grown=0.0) for _ in range(29)]
    assert sum(A in plan.stack_pids for plan in moving) <= 1
    end = hand.now
    quiet = [hand.second(busy=(A, B), behind=A, grown=0.0) for _ in range(int(floors.STILL_S))]
    looks = [end + second for second, plan in enumerate(quiet) if A in plan.stack_pids]
    assert len(looks) >= floors.LOOKS


def test_while_others_move_the_stack_of_who_rests_can_wait_unless_it_is_behind() -> None:
    def first(behind: int) -> int:
        hand = Hand()
        for _ in range(10):
            hand.second(counted=(A, B), grown=0.0)
        plans = [hand.second(counted=(B,), behind=behind, grown=0.0) for _ in range(60)]
        return next(second for second, plan in enumerate(plans) if A in plan.stack_pids)

    assert COUNTED_S < first(behind=A) <= PATIENCE_S + 1
    assert first(behind=B) >= CALM_S


def test_while_a_compiler_works_the_stack_of_who_is_behind_can_wait() -> None:
    def first(role: Role) -> int:
        hand, other = Hand(), 3
        hand.cpu[other], hand.switches[other] = 0.0, 0
        hand.tracks[other] = Track(Member(other, 0.0, role), Process(other, 0, 0.0, "S", "x"), 0.0, 0.0)
        for _ in range(10):
            hand.second(counted=(A, B), grown=0.0)
        return next(second for second in range(40) if A in hand.second(busy=(other,), behind=A, grown=0.0).stack_pids)

    assert first("helper") <= COUNTED_S + 2
    assert PATIENCE_S - 1 <= first("compiler") < floors.STILL_S


def test_who_is_behind_for_a_moment_only_is_asked_for_no_stack_and_nothing_around_it_is_looked_at() -> None:
    hand = Hand()
    for _ in range(10):
        hand.second(counted=(A, B), grown=0.0)
    for _ in range(10):
        hand.second(counted=(B,), behind=B, grown=0.0)
    passing = [hand.second(counted=(B,), behind=behind, grown=0.0) for behind in (A, A, A, B, B)]
    assert not any(plan.stack_pids or "sockets" in plan.probes for plan in passing)
    staying = [hand.second(counted=(B,), behind=A, grown=0.0) for _ in range(int(PATIENCE_S) + 2)]
    assert any(A in plan.stack_pids for plan in staying)
    assert any("sockets" in plan.probes for plan in staying)


def test_without_a_log_stacks_tell_the_phase_and_are_asked_all_the_same() -> None:
    hand = Hand()
    plans = [hand.second(counted=(B,), busy=(A,), grown=None) for _ in range(40)]
    assert sum(A in plan.stack_pids for plan in plans) >= 40 / STACKS_S - 2


def test_who_rests_where_it_rested_before_is_decoded_again_only_after_some_time_or_when_it_is_behind() -> None:
    def rests(hand: Hand, place: tuple[object, ...], behind: int | None = None) -> bool:
        found = []
        hand.second(counted=(A, B), grown=0.0)
        for _ in range(5):
            hand.second(counted=(B,), grown=0.0, place=place, behind=behind)
            found.append(A in hand.cadence.rested)
        return any(found)

    hand, here, there = Hand(), (232, 1, 2, 5), (202, 7, 8)
    assert rests(hand, here)
    assert not rests(hand, here)
    assert rests(hand, there)
    assert rests(hand, here)
    assert not rests(hand, here)
    assert rests(hand, here, behind=A)
    for _ in range(int(CALM_S)):
        hand.second(counted=(A, B), grown=0.0)
    assert rests(hand, here)


def test_a_process_that_sleeps_as_a_whole_is_looked_at_once_a_minute() -> None:
    assert len(looks_at_a_sleeper(0.25 * floors.CPU)) <= 120 / (2 * CALM_S) + 2


def looks_at_logs(*, writes: bool | None) -> int:
    """How often logs are looked at within two minutes."""
    hand = Hand()
    return sum("logs" in hand.second(writes=writes).probes for _ in range(120))


def test_logs_are_looked_at_less_often_while_no_member_writes_anything() -> None:
    assert looks_at_logs(writes=True) >= 120 / LOGS_S - 2
    assert looks_at_logs(writes=None) >= 120 / LOGS_S - 2
    assert 120 / QUIET_LOGS_S - 2 <= looks_at_logs(writes=False) <= 120 / QUIET_LOGS_S + 2


def test_health_is_asked_at_most_once_in_five_seconds() -> None:
    cadence = Cadence()
    asked = [at / 10 for at in range(0, 600, 3) if "health" in cadence.plan(at / 10, {}, []).probes]
    assert min(later - sooner for sooner, later in itertools.pairwise(asked)) >= HEALTH_S
    assert len(asked) >= 10


def test_a_phase_after_which_the_port_may_be_open_is_a_reason_to_ask_at_once() -> None:
    hand, asked = Hand(), []
    for second, reached in enumerate(
        [{"import"}] * 7 + [{"import", "http-listen"}] * 2 + [{"http-listen", "ready"}] * 2
    ):
        hand.cadence.came_further(reached, reached)  # type: ignore[arg-type]
        if "health" in hand.second().probes:
            asked.append(second)
    assert asked == [0, 7, 9]


def test_the_port_may_be_open_as_soon_as_any_member_has_come_so_far() -> None:
    """Without CUDA graphs vLLM's workers say nothing after their caches: the API server alone tells that it listens."""
    assert not may_listen("vllm", "kv-cache", {"engine-spawn", "kv-cache", None})
    assert may_listen("vllm", "kv-cache", {"ready", "frontend-init", "kv-cache"})
    assert may_listen("vllm", None, set())
    assert may_listen("unknown", "kv-cache", {"kv-cache"})


@given(st.lists(st.sampled_from(["idle", "busy", "counted"]), min_size=1, max_size=40))
def test_a_plan_never_names_who_is_dead(moves: list[str]) -> None:
    hand = Hand()
    hand.tracks[B].died = 0.0
    for move in moves:
        plan = hand.second(busy=(A,) if move == "busy" else (), counted=(A,) if move == "counted" else ())
        assert B not in {*plan.thread_pids, *plan.stack_pids, *plan.wait_pids}
    assert B not in hand.cadence.still


def test_stacks_of_many_members_are_asked_in_turns_and_of_who_is_behind_first() -> None:
    many = range(1, 61)
    tracks = {pid: Track(Member(pid, 0.0, "worker"), Process(pid, 0, 0.0, "S", "x"), 0.0, 0.0) for pid in many}
    cadence, seen = Cadence(), []
    for second in range(8):
        for track in tracks.values():
            track.ticks.append(Tick(float(second), 0.0, 0, 0, 0, 0, 0, 0))
        cadence.saw(tracks, many)
        asked = cadence.plan(float(second), tracks, many, behind=60).stack_pids
        assert len(asked) <= STACKS_AT_ONCE
        seen.append(set(asked))
    first = next(one for one in seen if one)
    assert 60 in first
    assert set().union(*seen) == set(many)


def test_without_stacks_none_are_asked() -> None:
    hand = Hand()
    hand.cadence.stacks = False
    assert not any(hand.second(behind=A).stack_pids for _ in range(20))


def looks_at_files(
    *counted: int, behind: int | None = None, files: Source | None = None, phases: tuple[Phase, ...] = ()
) -> int:
    """How often file systems are looked at within two minutes in which these move by their counters."""
    hand, found = Hand(), 0
    for _ in range(120):
        hand.cadence.came_further(phases, phases)
        plan = hand.cadence.plan(hand.now, hand.tracks, [A, B], behind, files=files)
        found += "storage" in plan.probes
        hand.now += 1.0
        for pid in counted:
            hand.tracks[pid].moved["memory"] = hand.now
    return found


def test_file_systems_are_looked_at_more_often_while_something_is_downloaded() -> None:
    seldom = 120 / SELDOM_S + 1
    assert looks_at_files() <= seldom
    assert looks_at_files(files="download") >= 120 / FETCH_S - 2
    assert looks_at_files(A, B, behind=A, files="download") >= 120 / FETCH_S - 2


def test_file_systems_are_looked_at_each_minute_while_counters_tell_that_the_launch_goes_on_and_files_tell_nothing() -> (
    None
):
    often, seldom = 120 / SELDOM_S, 120 / SELDOM_S / 2
    assert looks_at_files(A, B, behind=A) == seldom
    assert looks_at_files(B) == seldom
    assert looks_at_files(A, B, behind=A, phases=("compile",)) == seldom
    assert looks_at_files(B, behind=A) == often
    for phase in FILES:
        assert looks_at_files(A, B, behind=A, phases=(phase, "engine-init")) == often


def test_a_launch_that_comes_to_a_stop_has_its_file_systems_looked_at_at_once() -> None:
    hand = Hand()
    asked = []
    for second in range(60):
        if second < 40:
            hand.tracks[A].moved["memory"] = hand.now
        if "storage" in hand.cadence.plan(hand.now, hand.tracks, [A, B], A).probes:
            asked.append(second)
        hand.now += 1.0
    assert len(asked) == 2
    assert 40 < asked[1] <= 40 + COUNTED_S + 1


def test_compiled_files_are_looked_at_more_often_only_when_nothing_else_tells_that_who_is_behind_moves() -> None:
    often, seldom = 120 / FETCH_S - 2, 120 / SELDOM_S + 1
    assert looks_at_files(files="compiler") >= often
    assert looks_at_files(B, behind=A, files="compiler") >= often
    assert looks_at_files(A, behind=A, files="compiler") <= seldom
    assert looks_at_files(B, files="compiler") <= seldom
