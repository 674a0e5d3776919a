"""One launch over two hosts: who is named, and what is said of nodes and hosts that were not seen."""

from __future__ import annotations

from dataclasses import replace

from hangdoc.model.places import packed
from hangdoc.model.report import Report
from hangdoc.model.sample import Socket
from hangdoc.report import live
from hangdoc.report.picture import victims

from .two_hosts import LISTENING, SECOND_TP1, STORE, Pair, fds, look
from .world import BARRIER, HOOK, LOAD, ROOT, TP0, TP1, waiting


def who(report: Report) -> list[tuple[str, int, str]]:
    return [(one.host, one.pid, one.rank) for one in report.culprits]


def store(pair: Pair, *connections: str) -> None:
    """The first node serves the store; each of `connections` is a far end connected to it."""
    world = pair.nodes[0]
    world.bend(TP0, fds=fds(50, *(60 + number for number in range(len(connections)))))
    world.sockets = [LISTENING] + [
        Socket(60 + number, "tcp", "ESTABLISHED", STORE, far) for number, far in enumerate(connections)
    ]


def test_a_rank_that_is_locked_on_the_second_host_is_named_with_its_host() -> None:
    pair = Pair()
    pair.nodes[0].bend(TP0, BARRIER)
    pair.nodes[1].bend(TP1, (HOOK, *LOAD), thread=waiting(TP1, syscall=202, wchan="futex_wait"))
    report = look(pair).report("0")
    assert report.verdict == "suspect"
    assert who(report) == [("gpu02", TP1, "TP1")]
    assert "pid 102 on gpu02" in report.summary
    edge = next(one for one in report.waits if one.via == "collective")
    assert (edge.source.host, edge.source.pid) == ("gpu01", TP0)
    assert [(end.host, end.pid) for end in edge.target or ()] == [("gpu02", TP1)]
    assert {(row.host, row.pid) for row in report.processes} == {
        ("gpu01", ROOT), ("gpu01", TP0), ("gpu01", 103), ("gpu02", ROOT), ("gpu02", TP1),
    }  # fmt: skip


def test_a_node_that_never_came_is_named() -> None:
    pair = Pair()
    pair.given = 1
    store(pair, "10.0.0.1:40000")  # the first rank's own connection
    pair.nodes[0].sockets.append(Socket(99, "tcp", "ESTABLISHED", "10.0.0.1:40000", STORE))
    report = look(pair).report("0")
    assert report.verdict == "suspect"
    assert who(report) == [("gpu01", TP0, "TP0")]
    assert report.culprits[0].object == "node rank 1 (rank 1)"
    assert f"node rank 1 (rank 1), which never connected to the store at {STORE}" in report.summary


def test_a_node_that_came_and_was_not_looked_at_leaves_the_verdict_open() -> None:
    pair = Pair()
    pair.given = 1
    store(pair, "10.0.0.1:40000", "10.0.0.2:40000")
    pair.nodes[0].sockets.append(Socket(99, "tcp", "ESTABLISHED", "10.0.0.1:40000", STORE))
    report = look(pair).report("0")
    assert report.verdict == "undecided"
    assert "node rank 1 (rank 1) would be on a host not given or not reached" in report.summary
    assert f"10.0.0.2 connected to {STORE}" in report.summary


def test_a_node_at_a_wrong_address_is_named_and_not_the_one_that_waits_for_it() -> None:
    pair = Pair(address="10.9.9.9:5000")
    store(pair, "10.0.0.1:40000")
    pair.nodes[1].bend(TP1, fds=fds(70))
    pair.nodes[1].sockets = [Socket(70, "tcp", "SYN_SENT", "10.0.0.2:1", "10.9.9.9:5000")]
    report = look(pair).report("0")
    assert report.verdict == "suspect"
    assert who(report) == [("gpu02", TP1, "TP1")]
    assert report.culprits[0].object == "10.9.9.9:5000"
    assert report.culprits[0].mechanism == "socket-connect"


def test_all_that_joined_are_no_strangers() -> None:
    pair = Pair()
    store(pair, "10.0.0.2:1")
    pair.nodes[1].bend(TP1, fds=fds(70))
    pair.nodes[1].sockets = [Socket(70, "tcp", "ESTABLISHED", "10.0.0.2:1", STORE)]
    report = look(pair).report("0")
    assert {one.mechanism for one in report.culprits} == {"rendezvous"}
    assert "host not given" not in " ".join([report.summary, *report.reasons])


def test_members_of_a_lost_host_are_unseen_and_not_dead() -> None:
    pair = Pair()
    pair.nodes[0].bend(TP0, BARRIER)
    pair.nodes[1].bend(TP1, BARRIER)
    pair.down[1] = 5.0
    report = look(pair).report("0")
    assert report.verdict == "undecided"
    assert "gpu02 could not be reached: no route to host" in report.summary
    assert report.crash is None
    rows = [row for row in report.unseen if row.probe == "reach"]
    assert [(row.host, row.reason, row.pid) for row in rows] == [("gpu02", "timed-out", None)]


def test_a_lost_host_changes_nothing_where_the_cause_was_seen() -> None:
    pair = Pair()
    pair.nodes[0].bend(TP0, (HOOK, *LOAD), thread=waiting(TP0, syscall=202, wchan="futex_wait"))
    pair.nodes[1].bend(TP1, BARRIER)
    pair.down[1] = 5.0
    report = look(pair).report("0")
    assert report.verdict == "suspect"
    assert who(report) == [("gpu01", TP0, "TP0")]
    assert any("gpu02 could not be reached" in reason for reason in report.reasons)


def test_a_host_that_comes_back_is_seen_again() -> None:
    pair = Pair()
    pair.nodes[1].bend(TP1, (HOOK, *LOAD), thread=waiting(TP1, syscall=202, wchan="futex_wait"))
    pair.nodes[0].bend(TP0, BARRIER)
    pair.down[1] = 3.0

    def back(pair: Pair, second: int) -> None:
        if second == 6:
            pair.down.clear()

    diagnosis = look(pair, 24, move=back)
    report = diagnosis.report("0")
    assert who(report) == [("gpu02", TP1, "TP1")]
    assert not [row for row in report.unseen if row.probe == "reach"]


def test_a_rank_that_ended_while_its_host_was_lost_is_missed_when_it_is_back() -> None:
    pair = Pair()
    pair.down[1] = 3.0

    def back(pair: Pair, second: int) -> None:
        if second == 6:
            pair.down.clear()
            pair.nodes[1].processes.pop(TP1, None)

    report = look(pair, 8, move=back).report("0")
    assert report.verdict == "crashed"
    assert who(report) == [("gpu02", TP1, "TP1")]


def test_a_node_that_is_not_the_head_is_not_hung_for_waiting_in_its_loop() -> None:
    pair = Pair()
    idle = (
        ("broadcast", "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"),
        ("recv_requests", "/opt/venv/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py"),
    )
    pair.nodes[1].bend(TP1, idle)
    pair.down[0] = 0.0
    report = look(pair, root=packed(1, ROOT)).report("0")
    assert report.verdict == "ready"
    assert any("node rank 0 (rank 0)" in reason for reason in report.reasons)


def test_a_health_path_of_another_node_says_nothing() -> None:
    from hangdoc.model.sample import Health

    pair = Pair()
    pair.down[0] = 0.0
    pair.nodes[1].health = [Health(ROOT, 8000, "/health", 200)]
    assert look(pair, root=packed(1, ROOT)).report("0").verdict != "ready"


def test_the_same_port_of_two_hosts_is_two_rows() -> None:
    pair = Pair()
    for world in pair.nodes:
        world.bend(ROOT, fds=fds(80))
        world.sockets.append(Socket(80, "tcp", "LISTEN", "0.0.0.0:8000"))
    report = look(pair).report("0")
    assert [(row.host, row.pid) for row in report.ports if row.port == 8000] == [("gpu01", ROOT), ("gpu02", ROOT)]
    assert SECOND_TP1 not in {row.pid for row in report.ranks}


def test_next_steps_say_on_which_host_they_are_to_be_done() -> None:
    pair = Pair()
    pair.nodes[0].bend(TP0, BARRIER)
    pair.nodes[1].bend(TP1, (HOOK, *LOAD), thread=waiting(TP1, syscall=202, wchan="futex_wait"))
    report = look(pair).report("0")
    assert any(step.startswith(f"ssh gpu02 'py-spy dump --nonblocking --pid {TP1}'    (") for step in report.next), (
        report.next
    )
    assert any(step.startswith(f"hangdoc diagnose --deep gpu02:{TP1}    (") for step in report.next), report.next


def test_screens_show_the_host_where_there_are_several() -> None:
    pair = Pair()
    pair.nodes[0].bend(TP0, BARRIER)
    pair.nodes[1].bend(TP1, (HOOK, *LOAD), thread=waiting(TP1, syscall=202, wchan="futex_wait"))
    # The same number on both hosts: neither the victim nor the culprit may be taken for the other.
    pair.nodes[0].processes[TP1] = replace(pair.nodes[0].processes.pop(TP0), pid=TP1, threads={TP1: waiting(TP1)})
    diagnosis = look(pair)
    report = diagnosis.report("0")
    assert [(one.host, one.pid) for one in report.culprits] == [("gpu02", TP1)]
    assert {(group.label, group.count) for group in victims(report)} == {
        ("launcher on gpu01-gpu02", 2), ("scheduler TP0", 1)
    }  # fmt: skip
    shown = live.render(diagnosis.moment("0", {}), width=160)
    assert "scheduler TP1 on gpu02" in shown
    pair.down[1] = 0.0
    lost = live.render(look(pair).moment("0", {}), width=160)
    assert "gpu02 cannot be reached: no route to host" in lost
