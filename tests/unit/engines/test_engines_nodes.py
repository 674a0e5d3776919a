"""One launch over several nodes: which commands belong together."""

from __future__ import annotations

import pytest

from hangdoc.engines.launches import find, launch_of
from hangdoc.engines.nodes import endpoint
from hangdoc.model.places import HostPlace, packed
from hangdoc.model.sample import Process, Sample

PLACES = (HostPlace("gpu01"), HostPlace("gpu02"), HostPlace("gpu03"))


def launch(words: str, place: int = 0, pid: int = 10, **more: object) -> dict[int, Process]:
    root = packed(place, pid)
    scheduler = packed(place, pid + 1)
    title = f"sglang::scheduler_TP{place}" if "sglang" in words else f"VLLM::Worker_TP{place}"
    return {
        root: Process(root, packed(place, 1), float(pid), "S", "python", cmdline=tuple(words.split()), **more),  # type: ignore[arg-type]
        scheduler: Process(scheduler, root, float(pid) + 1, "S", title[:15], cmdline=(title,)),
    }


def seen(*parts: dict[int, Process]) -> Sample:
    return Sample(
        "gpu01", 0.0, 0.0, 0.0, processes={pid: one for part in parts for pid, one in part.items()}, places=PLACES
    )


SGLANG = "python -m sglang.launch_server --model-path m --tp 2 --nnodes 2 --node-rank {} --dist-init-addr {}"
VLLM = "python /v/bin/vllm serve m -tp 2 --nnodes 2 --node-rank {} --master-addr {}{}"


def test_two_nodes_are_one_launch_with_the_head_first() -> None:
    (one,) = find(seen(launch(SGLANG.format(1, "h:5000"), 0), launch(SGLANG.format(0, "h:5000"), 1)))
    assert (one.root, one.host, one.head) == (packed(1, 10), "gpu02", True)
    assert [(node.rank, node.host, node.head) for node in one.nodes] == [(0, "gpu02", True), (1, "gpu01", False)]
    assert one.nodes_wanted == 2
    assert sorted(one.members) == [10, 11, packed(1, 10), packed(1, 11)]
    assert one.members[packed(1, 11)].who == "scheduler TP1 (pid 11 on gpu02)"
    for pid in (10, packed(1, 11)):
        assert launch_of(pid, [one], seen()) is one


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (SGLANG.format(0, "h:5000"), SGLANG.format(1, "h:5001"), 2),  # another port: another launch
        (SGLANG.format(0, "h:5000"), SGLANG.format(0, "h:5000"), 2),  # two that think they are the first
        (SGLANG.format(0, "0.0.0.0:5000"), SGLANG.format(1, "h:5000"), 1),
        (SGLANG.format(0, "h:5000"), SGLANG.format(1, "10.9.9.9:5000"), 1),  # a wrong address: told, not parted
        (SGLANG.format(0, "h:5000"), SGLANG.format(1, "h:5000").replace("--nnodes 2", "--nnodes 4"), 2),
        (SGLANG.format(0, "h:5000"), SGLANG.format(1, "i:5000").replace("path m", "path other"), 2),
        (VLLM.format(0, "h", ""), VLLM.format(1, "h", " --headless"), 1),
        (VLLM.format(0, "h", ""), VLLM.format(1, "h", " --master-port 7"), 2),
        ("python -m sglang.launch_server --model-path m", "python -m sglang.launch_server --model-path m", 2),
        (VLLM.format(0, "h", ""), SGLANG.format(1, "h:29501"), 2),
    ],
)  # fmt: skip
def test_what_belongs_together(first: str, second: str, count: int) -> None:
    assert len(find(seen(launch(first, 0), launch(second, 1)))) == count


def test_data_parallel_nodes_of_vllm_meet_at_their_address() -> None:
    head = "python /v/bin/vllm serve m --data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-address h"
    (one,) = find(seen(launch(head, 0), launch(f"{head} --data-parallel-start-rank 2 --headless", 1)))
    assert [(node.rank, node.head) for node in one.nodes] == [(0, True), (1, False)]


def test_of_two_launches_at_the_same_hosts_each_keeps_its_own_nodes() -> None:
    parts = [
        launch(SGLANG.format(0, "h:5000"), 0, 10),
        launch(SGLANG.format(0, "h:6000"), 0, 20),
        launch(SGLANG.format(1, "h:6000"), 1, 10),
        launch(SGLANG.format(1, "h:5000"), 1, 20),
    ]
    found = find(seen(*parts))
    assert [[node.root for node in one.nodes] for one in found] == [[10, packed(1, 20)], [20, packed(1, 10)]]


def test_variables_tell_where_arguments_do_not() -> None:
    def env(node: int) -> dict[str, str]:
        return {"MASTER_ADDR": "h", "MASTER_PORT": "1234", "SLURM_NNODES": "2", "SLURM_NODEID": str(node)}

    words = "python -m sglang.launch_server --model-path m"
    (one,) = find(seen(launch(words, 0, env=env(0)), launch(words, 1, env=env(1))))
    assert (one.nodes_wanted, [node.rank for node in one.nodes]) == (2, [0, 1])


def test_one_node_alone_knows_that_there_are_more() -> None:
    (one,) = find(seen(launch(SGLANG.format(1, "h:5000"), 2)))
    assert (one.head, one.nodes_wanted, len(one.nodes)) == (False, 2, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("h:5000", ("h", 5000)),
        ("tcp://10.0.0.1:5", ("10.0.0.1", 5)),
        ("[fe80::1]:5", ("fe80::1", 5)),
        ("h", ("h", 0)),
        ("h:99999999", ("h:99999999", 0)),
        ("", ("", 0)),
    ],
)
def test_endpoints(text: str, found: tuple[str, int]) -> None:
    assert endpoint(text) == found


def test_a_node_of_vllm_that_serves_no_http_has_a_launcher() -> None:
    (one,) = find(seen(launch(VLLM.format(0, "h", ""), 0), launch(VLLM.format(1, "h", " --headless"), 1)))
    assert [one.members[node.root].role for node in one.nodes] == ["api-server", "launcher"]


def test_workers_that_ray_started_on_another_host_belong_to_the_one_launch_that_uses_ray() -> None:
    head = launch("python /v/bin/vllm serve m -tp 4 --distributed-executor-backend ray", 0)
    raylet, worker = packed(1, 40), packed(1, 41)
    others = {
        raylet: Process(raylet, packed(1, 1), 2.0, "S", "raylet", cmdline=("/r/raylet",)),
        worker: Process(
            worker, raylet, 30.0, "S", "ray::RayWorkerW", cmdline=("ray::RayWorkerWrapper.execute_method",)
        ),
    }
    (one,) = find(seen(head, others))
    assert (one.members[worker].role, one.members[worker].host) == ("worker", "gpu02")
