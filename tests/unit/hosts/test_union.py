"""Several hosts as one number space: ids that never meet, and questions that find their host again."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import get_args, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from hangdoc.hosts.fleet import ask_of
from hangdoc.hosts.move import _FIELDS, Shift, shifted
from hangdoc.hosts.union import in_step, union
from hangdoc.model import sample as s
from hangdoc.model.ask import Ask, HealthAsk
from hangdoc.model.places import HostPlace, marked, own, own_inode, packed, packed_inode, place_of, unmarked

PLACES = st.integers(0, 5000)
PIDS = st.integers(1, (1 << 22) - 1)
HOSTS = ("gpu01", "gpu02", "gpu1")
TWO = (HostPlace("gpu01"), HostPlace("gpu02"))


@given(PLACES, PIDS, PLACES, PIDS)
def test_numbers_of_two_hosts_never_meet_and_are_told_back(one: int, pid: int, other: int, pid2: int) -> None:
    assert (place_of(packed(one, pid)), own(packed(one, pid))) == (one, pid)
    assert (packed(one, pid) == packed(other, pid2)) == ((one, pid) == (other, pid2))


@given(PLACES, st.integers(1, (1 << 64) - 1))
def test_inodes_of_64_bits_are_told_back(place: int, inode: int) -> None:
    assert own_inode(packed_inode(place, inode)) == inode
    assert packed_inode(0, inode) == inode


@given(PLACES)
def test_what_is_no_id_stays(place: int) -> None:
    assert (packed(place, 0), packed(place, -1), own(-1), place_of(-1)) == (0, -1, -1, 0)


@given(st.integers(0, 2), st.text(min_size=1, max_size=9).filter(lambda text: ":" not in text))
def test_a_path_finds_its_host_again(place: int, path: str) -> None:
    places = [HostPlace(host) for host in HOSTS]
    assert unmarked(HOSTS, marked(places, place, f"/{path}")) == (place, f"/{path}")


def member(pid: int = 7) -> s.Process:
    lock = s.FutexWait(0x10, "mutex", 1, owner=9, object="0:1:5:0", owner_raw=2)
    thread = s.Thread(pid, "S", args=(3, 0), deadline=100.0, futex=lock)
    return s.Process(
        pid, 1, 50.0, "S", "python", nspid=(pid, 2), tracer=4, cgroup="/c", net_ns=11, pid_ns=12, mnt_ns=13,
        threads={pid: thread}, gil=s.Gil(8, (pid,)), shared=("0:1:5",),
        fds={3: s.Fd(3, "socket", "socket:[77]", 77), 4: s.Fd(4, "pidfd", "pidfd", pidfd=-1), 5: s.Fd(5, "pidfd", "", pidfd=6)},
        stacks=[s.Stack(pid), s.Stack(None)], kernel_stacks={pid: ("nfs_wait",)},
    )  # fmt: skip


def sample(**more: object) -> s.Sample:
    facts = s.HostFacts(
        name="h", cgroups={"/c": s.Cgroup(frozen=True)}, kernel_log=(s.KernelLine(5.0, "oom", "text", 7),)
    )
    base = s.Sample(
        "h", 1000.0, 200.0, 210.0, ("processes",), {7: member()}, [s.Socket(77, "tcp", "LISTEN", peer=78, net_ns=11)],
        [s.Log("/log", "file", (7,), reader=6, mtime=990.0, inode=5)], [s.Health(7, 1, "/h", 200)], facts,
        file_locks=[s.FileLock(5, "0:1", "FLOCK", "WRITE", path="/l", holders=(7,), waiters=(8,), owner=7)],
        rings=[s.Ring("ring", "x", 1, 1, (0,), (7,))], ended=[s.Ended(9, 51.0, 199.0)],
        unseen=[s.Unseen("environ", "overwritten", "", 7)], cost=s.Cost(1.0, 2.0, 3, 0, {7: 4.0}),
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def test_every_id_and_clock_of_a_further_host_is_moved() -> None:
    moved = shifted(sample(), 1, TWO, Shift(mono=10.0, boot=20.0, wall=30.0))
    pid = packed(1, 7)
    (one,) = moved.processes.values()
    assert (list(moved.processes), one.pid, one.ppid, one.start) == ([pid], pid, packed(1, 1), 70.0)
    assert (one.tracer, one.nspid, one.cgroup) == (packed(1, 4), (7, 2), "gpu02:/c")
    assert (one.net_ns, one.pid_ns, one.mnt_ns) == tuple(packed_inode(1, ns) for ns in (11, 12, 13))
    thread = (one.threads or {})[pid]
    assert (thread.tid, thread.deadline, thread.args) == (pid, 110.0, (3, 0))
    assert thread.futex is not None
    assert (thread.futex.owner, thread.futex.owner_raw) == (packed(1, 9), 2)  # the latter is of its own namespace
    assert (thread.futex.object or "").rpartition(":")[0] == (one.shared or ())[0] != "0:1:5"
    assert one.gil == s.Gil(packed(1, 8), (pid,))
    fds = one.fds or {}
    assert (fds[3].inode, fds[4].pidfd, fds[5].pidfd) == (packed_inode(1, 77), -1, packed(1, 6))
    assert [stack.tid for stack in one.stacks or ()] == [pid, None]
    assert one.kernel_stacks == {pid: ("nfs_wait",)}
    assert (moved.sockets[0].inode, moved.sockets[0].peer) == (packed_inode(1, 77), packed_inode(1, 78))
    assert (moved.logs[0].path, moved.logs[0].mtime, moved.logs[0].place) == ("gpu02:/log", 1020.0, 1)
    assert moved.logs[0].inode == 5  # it goes back to its host with the next question
    assert moved.health[0].pid == pid
    lock = moved.file_locks[0]
    assert (lock.holders, lock.waiters, lock.owner, lock.path) == ((pid,), (packed(1, 8),), pid, "gpu02:/l")
    assert (moved.rings[0].pids, moved.ended[0]) == ((pid,), s.Ended(packed(1, 9), 71.0, 209.0))
    assert (moved.unseen[0].pid, moved.unseen[0].host) == (pid, "gpu02")
    assert moved.cost.paused_ms == {pid: 4.0}
    assert moved.host_facts is not None
    assert (moved.host_facts.kernel_log[0].at, moved.host_facts.kernel_log[0].pid) == (25.0, pid)


def test_the_first_host_stays_as_it_is_and_facts_of_all_are_kept() -> None:
    both = union(TWO, {0: sample(), 1: sample()}, {0: Shift(), 1: Shift()}, Shift(200.0, 210.0, 1000.0), ("processes",))
    assert sorted(both.processes) == [7, packed(1, 7)]
    assert both.processes[7] == sample().processes[7]
    assert {place: sorted(one.cgroups) for place, one in both.facts_by_place.items()} == {0: ["/c"], 1: ["gpu02:/c"]}
    assert (both.cost.wall_s, both.cost.cpu_s) == (1.0, 4.0)
    assert [log.path for log in both.logs] == ["/log", "gpu02:/log"]


def test_facts_keep_their_place_where_the_first_host_is_lost() -> None:
    places = (HostPlace("gpu01", "timed-out", "no route"), HostPlace("gpu02"))
    rest = union(places, {1: sample(machine=s.Machine())}, {1: Shift()}, Shift(200.0, 210.0, 1000.0), ("processes",))
    assert (rest.host_facts, rest.machine) == (None, None)
    assert (list(rest.facts_by_place), list(rest.machines_by_place)) == ([1], [1])


def test_a_lost_host_is_a_row_and_nothing_else() -> None:
    places = (HostPlace("gpu01"), HostPlace("gpu02", "timed-out", "no route"))
    both = union(places, {0: sample()}, {0: Shift()}, Shift(200.0, 210.0, 1000.0), ("processes",))
    assert list(both.processes) == [7]
    assert [(one.probe, one.reason, one.host, one.detail) for one in both.unseen if one.probe == "reach"] == [
        ("reach", "timed-out", "gpu02", "no route")
    ]


def test_a_question_is_split_into_each_hosts_own_numbers() -> None:
    here, there = 7, packed(1, 7)
    ask = Ask(
        1, ("threads",), pids=(here, there), stack_pids=(there,), thread_pids=(here,), wait_pids=(there,),
        logs=("/a", "gpu02:/b"), log_offsets={"/log#5": 3, "gpu02:/log": 4}, health=[HealthAsk(there, 1, "/h")],
    )  # fmt: skip
    mine, theirs = ask_of(ask, 0, HOSTS), ask_of(ask, 1, HOSTS)
    assert (mine.pids, theirs.pids) == ((7,), (7,))
    assert (mine.stack_pids, theirs.stack_pids) == ((0,), (7,))  # 0 is nobody: an empty tuple would be everybody
    assert (mine.thread_pids, theirs.thread_pids) == ((7,), (0,))
    assert (mine.wait_pids, theirs.wait_pids) == ((), (7,))
    assert (mine.logs, theirs.logs) == (("/a",), ("/b",))
    assert (mine.log_offsets, theirs.log_offsets) == ({"/log#5": 3}, {"/log": 4})
    assert (mine.health, theirs.health) == ([], [HealthAsk(7, 1, "/h")])
    assert ask_of(Ask(1, ("threads",)), 1, HOSTS).stack_pids == ()


def test_looks_taken_on_each_host_by_itself_become_one() -> None:
    def run(boot: float) -> list[s.Sample]:
        return [
            s.Sample("h", 1e9 + boot + n, boot + n, boot + n, ("scan",), {7: s.Process(7, 1, boot - 60, "S", "x")})
            for n in range(3)
        ]

    both = list(in_step(("a", "b"), (run(1000.0), run(77.0)[:2])))
    assert [one.mono for one in both] == [1000.0, 1001.0, 1002.0]
    assert [sorted(one.processes) for one in both] == [[7, packed(1, 7)]] * 2 + [[7]]
    assert [one.boot - process.start for one in both for process in one.processes.values()] == [60, 60, 61, 61, 62]
    assert both[2].places[1].silent  # it was looked at for a shorter time, which is no end of its processes


# Names of fields that hold ids, and the parts of a sample that `move` knows to have some.
_IDS = {"pid", "pids", "tid", "inode", "reader", "holder", "holders", "waiters", "net_ns", "pidfd", "daemons", "tracer"}
_MOVED = {
    "Sample", "Process", "Thread", "FutexWait", "Gil", "Fd", "Stack", "Glance", "GlanceThread", "Trace", "TracedCall",
    "Socket", "Log", "Health", "FileLock", "Ring", "Ended", "Unseen", "DeepStep", "Cost", "HostFacts", "KernelLine",
    "Place", "Checkpoint", "Partial", "WeightFile", "LockFile", "Network", "Asked", "Proxy", "Machine",
}  # fmt: skip


def parts_of(kind: type, known: set[type]) -> set[type]:
    """Every dataclass that a sample is made of."""
    known.add(kind)
    for hint in get_type_hints(kind).values():
        waiting = [hint]
        while waiting:
            one = waiting.pop()
            waiting += get_args(one)
            if isinstance(one, type) and is_dataclass(one) and one not in known:
                parts_of(one, known)
    return known


def test_whatever_holds_ids_is_moved() -> None:
    """A new part of a sample that names processes, threads or inodes needs its line in hosts/move.py."""
    found = {one.__name__ for one in parts_of(s.Sample, set()) if _IDS & {field.name for field in fields(one)}}
    assert found <= _MOVED


def test_whatever_is_kept_by_thread_is_moved() -> None:
    by_number = {name for name, hint in get_type_hints(s.Process).items() if "Dict[int" in str(hint)}
    assert by_number <= set(_FIELDS)
