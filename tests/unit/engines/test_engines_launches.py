"""Launches in process lists: trees of real starts, and programs that only look like one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hangdoc.engines.launches import find, launch_of, telling, unknown_launch
from hangdoc.model.launch import Launch, Rank
from hangdoc.model.sample import Process, Sample

TREES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "engines" / "trees.json").read_text())
SPAWN = "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=7) --multiprocessing-fork"


def process(pid: int, ppid: int, words: str | list[str], **more: Any) -> Process:
    cmdline = tuple(words.split(" ") if isinstance(words, str) else words)
    if isinstance(words, str) and words.startswith("python -c "):
        head, _, tail = words.partition("python -c ")[2].rpartition(" ")
        cmdline = ("python", "-c", head, tail)
    return Process(
        pid,
        ppid,
        more.pop("start", float(pid)),
        more.pop("state", "S"),
        more.pop("comm", "python"),
        cmdline=cmdline,
        **more,
    )


def sample(*processes: Process) -> Sample:
    return Sample("h", 0.0, 0.0, 0.0, processes={one.pid: one for one in processes})


def roles(launch: Launch) -> dict[int, str]:
    return {pid: one.label for pid, one in sorted(launch.members.items())}


@pytest.mark.parametrize("tree", TREES, ids=lambda one: f"{one['engine']}-{len(one['rows'])}")
def test_every_moment_of_a_real_start_has_its_roles_and_ranks(tree: dict[str, Any]) -> None:
    rows = [
        Process(pid, ppid, start, state, comm, cmdline=tuple(cmd))
        for pid, ppid, start, state, comm, cmd, *_ in tree["rows"]
    ]
    (launch,) = find(sample(*rows))
    assert (launch.engine, launch.root) == (tree["engine"], tree["root"])
    seen = {row[0]: (row[6], row[7].get("tp")) for row in tree["rows"]}
    assert {pid: (one.role, one.rank.tp) for pid, one in launch.members.items()} == seen


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        ("/opt/bin/python3.11 /opt/bin/vllm serve m --port 1", "vllm"),
        ("vllm serve m", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm"),
        ("python3 -u -m vllm.entrypoints.cli.main serve m", "vllm"),
        ("python /x/vllm/entrypoints/openai/api_server.py", "vllm"),
        ("python -m sglang.launch_server --model-path m", "sglang"),
        ("/opt/bin/python /opt/bin/sglang serve --model-path m", "sglang"),
        ("python /x/sglang/launch_server.py", "sglang"),
    ],
)
def test_roots(words: str, engine: str) -> None:
    (launch,) = find(sample(process(5, 1, words)))
    assert (launch.root, launch.engine) == (5, engine)


@pytest.mark.parametrize(
    "words",
    [
        ["vim", "sglang.launch_server"],
        ["grep", "vllm serve", "log"],
        ["tail", "-f", "sglang.log"],
        ["bash", "-c", "python -m sglang.launch_server --tp 2"],
        ["ssh", "host", "vllm", "serve", "m"],
        ["docker", "run", "vllm/vllm-openai", "vllm", "serve", "m"],
        ["uv", "run", "vllm", "serve", "m"],
        ["python", "-m", "hangdoc", "watch", "--", "vllm", "serve", "m"],
        ["/opt/bin/python", "/opt/bin/hangdoc", "diagnose", "sglang.launch_server"],
        ["python", "-c", "import sglang.launch_server"],
        ["vllm", "bench", "serve"],
        ["vllm", "chat"],
        ["python", "client.py", "-m", "sglang.launch_server"],
        [],
    ],
)
def test_programs_that_only_name_an_engine_are_no_roots(words: list[str]) -> None:
    assert find(sample(process(5, 1, words))) == []


def test_arguments_port_and_head() -> None:
    one = find(sample(process(5, 1, "vllm serve m -tp 4 --enforce-eager --port=9 --gpu_memory_utilization 0.5")))[0]
    assert one.args == {
        "model": "m",
        "tensor-parallel-size": "4",
        "enforce-eager": "",
        "port": "9",
        "gpu-memory-utilization": "0.5",
    }
    assert (one.port, one.head) == (9, True)
    other = find(sample(process(5, 1, "python -m sglang.launch_server --nnodes 2 --node-rank 1 --tp-size 16")))[0]
    assert (other.port, other.head, other.args["tensor-parallel-size"]) == (30000, False, "16")
    assert not find(sample(process(5, 1, "vllm serve m --headless")))[0].head


def sglang(arguments: str, *children: Process) -> Launch:
    (launch,) = find(sample(process(10, 1, f"python -m sglang.launch_server {arguments}"), *children))
    return launch


def test_untitled_children_of_sglang_are_told_by_their_order() -> None:
    children = [process(11 + i, 10, SPAWN) for i in range(5)]
    assert roles(sglang("--tp 2 --pp-size 2", *children)) == {
        10: "launcher",
        11: "scheduler PP0 TP0",
        12: "scheduler PP0 TP1",
        13: "scheduler PP1 TP0",
        14: "scheduler PP1 TP1",
        15: "detokenizer",
    }


def test_ranks_of_a_second_node_go_on_counting_and_have_no_detokenizer() -> None:
    children = [process(11 + i, 10, SPAWN) for i in range(3)]
    assert roles(sglang("--tp 4 --nnodes 2 --node-rank 1", *children)) == {
        10: "launcher",
        11: "scheduler TP2",
        12: "scheduler TP3",
        13: "helper",
    }


def test_arguments_that_claim_a_million_ranks_cost_nothing() -> None:
    launch = sglang("--tp 999999999 --dp 1 --pp-size 999999999", process(11, 10, SPAWN))
    assert launch.members[11].role == "scheduler"


def test_data_parallel_sglang_has_a_controller_between() -> None:
    launch = sglang(
        "--tp 4 --dp 2 --enable-dp-attention",
        process(11, 10, SPAWN),
        process(12, 10, ["sglang::detokenizer"]),
        process(13, 11, ["sglang::scheduler_DP0_TP0_EP0"]),
        process(14, 11, ["sglang::scheduler_DP1_TP3_EP3"]),
    )
    assert roles(launch) == {
        10: "launcher",
        11: "dp-controller",
        12: "detokenizer",
        13: "scheduler DP0 TP0 EP0",
        14: "scheduler DP1 TP3 EP3",
    }
    assert launch.members[14].rank == Rank(dp=1, tp=3, ep=3)


def test_a_dead_scheduler_keeps_its_role() -> None:
    launch = sglang(
        "--tp 2",
        process(11, 10, ["sglang::scheduler_TP0"]),
        process(12, 10, [], state="Z", comm="sglang::schedul"),
        process(13, 10, ["sglang::detokenizer"]),
    )
    assert roles(launch) == {10: "launcher", 11: "scheduler TP0", 12: "scheduler TP1", 13: "detokenizer"}
    untitled = sglang("--tp 2", process(11, 10, [], state="Z"), process(12, 10, SPAWN), process(13, 10, SPAWN))
    assert roles(untitled)[11] == "scheduler TP0"


def test_vllm_without_titles_forks_its_engine_core_and_workers() -> None:
    words = "python /opt/bin/vllm serve m -tp 2"
    (launch,) = find(
        sample(
            process(1000, 1, words), process(1001, 1000, words), process(1002, 1001, words), process(1003, 1001, words)
        )
    )
    assert roles(launch) == {1000: "api-server", 1001: "engine-core", 1002: "worker TP0", 1003: "worker TP1"}


def test_vllm_with_one_gpu_has_no_worker() -> None:
    (launch,) = find(sample(process(10, 1, "vllm serve m"), process(11, 10, SPAWN), process(12, 11, SPAWN)))
    assert roles(launch) == {10: "api-server", 11: "engine-core", 12: "helper"}


def test_vllm_with_several_front_ends_has_a_launcher() -> None:
    (launch,) = find(
        sample(
            process(10, 1, "vllm serve m -dp 2 --api-server-count 2"),
            process(11, 10, ["VLLM::DPCoordinator"]),
            process(12, 10, ["VLLM::EngineCore_DP0"]),
            process(13, 10, ["VLLM::EngineCore_DP1"]),
            process(14, 10, ["VLLM::APIServer_0"]),
            process(15, 10, ["VLLM::APIServer_1"]),
        )
    )
    assert roles(launch) == {
        10: "launcher",
        11: "dp-coordinator",
        12: "engine-core DP0",
        13: "engine-core DP1",
        14: "api-server",
        15: "api-server",
    }


@pytest.mark.parametrize(
    ("words", "role"),
    [
        ("python -c from multiprocessing.resource_tracker import main;main(6)", "helper"),
        ("/usr/local/cuda/bin/nvcc -o a", "compiler"),
        ("cicc --c++17", "compiler"),
        ("/usr/bin/ninja -v -j 8", "compiler"),
        ("x86_64-linux-gnu-g++-12 a.cpp", "compiler"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet", "compiler"),
        ("python /x/torch/_inductor/compile_worker/__main__.py --workers=32", "compiler"),
        ("aria2c https://example.org/a", "downloader"),
        ("python -m vllm.model_executor.models.registry", "helper"),
        ("nvidia-smi", "helper"),
    ],
)
def test_helpers_of_a_member_and_their_children_are_never_needed(words: str, role: str) -> None:
    (launch,) = find(
        sample(
            process(10, 1, "vllm serve m -tp 2"),
            process(11, 10, ["VLLM::EngineCore"]),
            process(12, 11, words),
            process(13, 12, SPAWN),
        )
    )
    assert (launch.members[12].role, launch.members[13].role) == (role, role)
    assert [one.pid for one in launch.needed] == [10, 11]


def test_wrappers_lead_to_the_launch_and_shared_parents_do_not() -> None:
    found = sample(
        process(1, 0, "/sbin/init", comm="systemd"),
        process(2, 1, "sshd: a", comm="sshd"),
        process(3, 2, ["-bash"], comm="bash"),
        process(4, 3, ["bash", "run.sh"], comm="bash"),
        process(5, 4, "uv run vllm serve m", comm="uv"),
        process(6, 5, "python /v/bin/vllm serve m", nspid=(6, 2)),
        process(7, 6, SPAWN, nspid=(7, 3)),
        process(8, 3, "python -m sglang.launch_server", nspid=(8, 2)),
        process(9, 3, "top", comm="top"),
    )
    launches = find(found)
    vllm, other = launches
    assert (vllm.engine, vllm.wrappers, other.engine, other.wrappers) == ("vllm", (5, 4), "sglang", ())
    assert [launch_of(pid, launches, found) for pid in (4, 5, 6, 7)] == [vllm] * 4
    assert launch_of(8, launches, found) == other
    assert launch_of(9, launches, found) is None  # somebody else's process
    assert launch_of(3, launches, found) is None  # above both
    assert launch_of(99, launches, found) is None
    alone = replace(found, processes={pid: one for pid, one in found.processes.items() if pid not in (2, 3, 8)})
    assert launch_of(3, find(alone), alone) == find(alone)[0]  # a number in the container
    assert launch_of(1, find(alone), alone) is None


def test_a_launch_without_its_launcher_is_found_by_its_titles() -> None:
    (launch,) = find(
        sample(
            process(1, 0, "tini", comm="tini"),
            process(12, 1, ["sglang::scheduler_TP1"], start=3.0),
            process(11, 1, ["sglang::scheduler_TP0"], start=2.0),
            process(13, 11, "nvcc a"),
            process(14, 1, ["sglang::detokenizer"], start=4.0),
        )
    )
    assert launch.root == 11
    assert roles(launch) == {11: "scheduler TP0", 12: "scheduler TP1", 13: "compiler", 14: "detokenizer"}


def test_ray_workers_belong_to_the_launch_that_uses_ray() -> None:
    raylet = process(3, 1, "/ray/raylet")
    worker = process(4, 3, ["ray::RayWorkerWrapper.execute_method"])
    (launch,) = find(sample(process(5, 1, "vllm serve m --distributed-executor-backend ray"), raylet, worker))
    assert roles(launch) == {4: "worker", 5: "api-server"}


def test_a_users_own_script_is_the_launcher_of_the_engine_below_it() -> None:
    (launch,) = find(
        sample(
            process(5, 1, "python batch.py --tp 9"),
            process(6, 5, ["VLLM::EngineCore"]),
            process(7, 6, ["VLLM::Worker_TP0"]),
        )
    )
    assert (launch.root, launch.engine, launch.args) == (5, "vllm", {})
    assert roles(launch) == {5: "api-server", 6: "engine-core", 7: "worker TP0"}


def test_two_launches_come_oldest_first() -> None:
    found = find(sample(process(9, 1, "vllm serve a", start=1.0), process(5, 1, "vllm serve b", start=2.0)))
    assert [one.root for one in found] == [9, 5]


def test_the_version_comes_from_the_packages_of_a_member() -> None:
    (launch,) = find(sample(process(5, 1, "vllm serve m", packages={"torch": "2", "vllm": "0.11.0"})))
    assert launch.version == "0.11.0"


def test_an_unknown_server_has_all_its_descendants() -> None:
    found = sample(
        process(5, 1, "/bin/myserver"),
        process(6, 5, SPAWN),
        process(7, 5, "gcc a"),
        process(8, 5, "sleep 1"),
        process(9, 1, "top"),
    )
    launch = unknown_launch(5, found)
    assert launch
    assert roles(launch) == {5: "launcher", 6: "worker", 7: "compiler", 8: "helper"}
    assert unknown_launch(99, found) is None


WORDS = st.sampled_from(
    [
        ["python", "-m", "sglang.launch_server", "--tp", "2"],
        ["vllm", "serve", "m"],
        ["VLLM::EngineCore"],
        ["sglang::scheduler_TP0"],
        ["bash", "-c", "x"],
        ["python", "-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork"],
        [],
        ["nvcc"],
    ]
)


SERVER = ["python", "-m", "sglang.launch_server", "--tp", "2"]


@example([(0, SERVER, "S"), (3, SERVER, "S"), (4, ["bash", "-c", "x"], "S"), (8, ["VLLM::EngineCore"], "S"), (0, SERVER, "S"),
          (0, SERVER, "S"), (0, SERVER, "S"), (3, ["sglang::scheduler_TP0"], "S")])  # fmt: skip
@given(st.lists(st.tuples(st.integers(0, 12), WORDS, st.sampled_from("SZ")), max_size=12))
def test_every_process_is_in_at_most_one_launch_even_in_impossible_trees(
    rows: list[tuple[int, list[str], str]],
) -> None:
    found = sample(*(process(pid, ppid, words, state=state) for pid, (ppid, words, state) in enumerate(rows, 1)))
    launches = find(found)
    pids = [pid for one in launches for pid in one.members]
    assert len(pids) == len(set(pids))
    for one in launches:
        assert one.root in one.members
        assert launch_of(one.root, launches, found) == one


def test_a_child_that_has_not_loaded_its_program_is_no_rank() -> None:
    """vfork: the child shows its parent's command line, and the parent is in state D until it loads another program."""
    words = "python -m sglang.launch_server --model-path m"
    held = sample(process(1, 0, words, state="D"), process(2, 1, words))
    forked = sample(process(1, 0, words, state="S"), process(2, 1, words))
    assert roles(find(held)[0]) == {1: "launcher", 2: "helper"}
    assert roles(find(forked)[0]) == {1: "launcher", 2: "scheduler"}


class Spied:
    """A process that notes what is read of it."""

    def __init__(self, of: Process, read: set[str]) -> None:
        self.of, self.read = of, read

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self.of, name)


def test_nothing_is_looked_at_that_is_not_telling() -> None:
    read: set[str] = set()
    spied: dict[int, Any] = {}
    for tree in TREES:
        rows = [
            Process(pid, ppid, start, state, comm, cmdline=tuple(cmd))
            for pid, ppid, start, state, comm, cmd, *_ in tree["rows"]
        ]
        spied = {one.pid: Spied(one, read) for one in rows}
        assert find(Sample("h", 0.0, 0.0, 0.0, processes=spied))
    looked = set(read)
    read.clear()
    telling(Sample("h", 0.0, 0.0, 0.0, processes=spied))
    assert looked <= read
