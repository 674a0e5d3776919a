"""Stacks, mostly of real vLLM 0.32 and SGLang 0.5.23 starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.engines.load import common, profiles
from hangdoc.engines.meanings import Meaning, in_file, meaning
from hangdoc.engines.profile import Profile
from hangdoc.model.sample import Frame, Stack

SEEN: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "engines" / "stacks.json").read_text())
INSTALLED = (*common().libraries, "vllm", "sglang")
VLLM, SGLANG = profiles()["vllm"], profiles()["sglang"]


def where(file: str) -> str:
    """The whole path of a file that py-spy shows relative to sys.path."""
    package = file.partition("/")[0]
    if file.startswith("<") or package == "somebody":
        return file
    return f"/opt/lib/python3.11/{'site-packages/' if package in INSTALLED else ''}{file}"


def stack_of(frames: list[list[str]]) -> Stack:
    return Stack(1, frames=tuple(Frame(function, where(file), file) for function, file in frames))


def answers(found: Meaning) -> tuple[object, ...]:
    return found.phase, found.mechanism, found.waits_for, found.idle


def name(row: dict[str, Any]) -> str:
    return f"{row['engine']}-{row['role']}-{row['phase']}-{row['mechanism']}-{row['waits_for']}"


@pytest.mark.parametrize("row", SEEN, ids=name)
def test_seen_stacks_mean_what_they_meant(row: dict[str, Any]) -> None:
    found = meaning(stack_of(row["frames"]), profiles()[row["engine"]])
    assert answers(found) == (row["phase"], row["mechanism"], row["waits_for"], row["idle"])


@pytest.mark.parametrize("row", SEEN, ids=name)
def test_bare_function_names_of_older_pythons_mean_the_same_phase_and_wait(row: dict[str, Any]) -> None:
    bare = [[function.rpartition(".")[2], file] for function, file in row["frames"]]
    found = meaning(stack_of(bare), profiles()[row["engine"]])
    assert (found.phase, found.waits_for) == (row["phase"], row["waits_for"])


def within(row: dict[str, Any]) -> int:
    """How many of its innermost frames lie in the wait, the one that tells of it not counted."""
    for count in range(1, len(row["frames"]) + 1):
        found = meaning(stack_of(row["frames"][:count]), profiles()[row["engine"]])
        if found.mechanism or found.waits_for or found.idle:
            return count
    return 0


@given(st.sampled_from(SEEN), st.data())
def test_a_wrapper_anywhere_changes_neither_phase_nor_wait(row: dict[str, Any], data: st.DataObject) -> None:
    frames: list[list[str]] = list(row["frames"])
    # Further out than the wait: foreign code within it is where the thread is (see the test of patches).
    at = data.draw(st.integers(max(1, within(row)), len(frames)))
    frames.insert(at, ["decorate.<locals>.wrapper", "somebody/patch.py"])
    found = meaning(stack_of(frames), profiles()[row["engine"]])
    assert (found.phase, found.waits_for, found.idle) == (row["phase"], row["waits_for"], row["idle"])


@given(st.lists(st.builds(Frame, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)), max_size=9))
def test_no_stack_is_too_strange(frames: list[Frame]) -> None:
    for profile in profiles().values():
        meaning(Stack(1, frames=tuple(frames)), profile)


ENGINE_CORE = [
    ["EngineCore.__init__", "vllm/v1/engine/core.py"],
    ["EngineCoreProc.run_engine_core", "vllm/v1/engine/core.py"],
]
WORKER = [
    ["WorkerProc._execute_worker_rpc", "vllm/v1/executor/multiproc_executor.py"],
    ["WorkerProc.worker_busy_loop", "vllm/v1/executor/multiproc_executor.py"],
    ["WorkerProc.worker_main", "vllm/v1/executor/multiproc_executor.py"],
]
SCHEDULER = [
    ["Scheduler.event_loop_normal", "sglang/srt/managers/scheduler.py"],
    ["run_scheduler_process", "sglang/srt/managers/scheduler.py"],
]
PATCH = [["Patch.wait", "somebody/patch.py"]]
IMPORT = [
    ["<module>", "vllm/x.py"],
    ["_call_with_frames_removed", "<frozen importlib._bootstrap>"],
    ["_find_and_load", "<frozen importlib._bootstrap>"],
]
LOCK = [["Condition.wait", "threading.py"], ["Event.wait", "threading.py"]]


@pytest.mark.parametrize(
    ("profile", "frames", "said"),
    [
        # A rank inside a call of its engine is not idle, whatever stands between the call and the loop.
        (VLLM, [*PATCH, *WORKER], ("memory-profile", None, None, False)),
        (SGLANG, [*PATCH, *SCHEDULER], ("warmup", None, None, False)),
        (SGLANG, SCHEDULER, ("warmup", None, None, True)),
        # Threads, files, children and peers within a phase.
        (VLLM, [*LOCK, *PATCH, *ENGINE_CORE], ("engine-init", "event-wait", "threads", False)),
        (
            SGLANG,
            [["FileBaton.wait", "torch/utils/file_baton.py"], *PATCH, *SCHEDULER],
            ("warmup", "stale-lock-file", "object", False),
        ),
        (
            SGLANG,
            [["all_reduce", "torch/distributed/distributed_c10d.py"], *SCHEDULER],
            ("warmup", "collective", "ranks", False),
        ),
        # Downloads are a phase only where weights are loaded.
        (
            VLLM,
            [
                ["http_get", "huggingface_hub/file_download.py"],
                ["hf_hub_download", "huggingface_hub/file_download.py"],
                ["DefaultModelLoader.load_weights", "vllm/model_executor/model_loader/default_loader.py"],
            ],
            ("download", "download", "object", False),
        ),
        (
            VLLM,
            [
                ["hf_hub_download", "huggingface_hub/file_download.py"],
                ["EngineArgs.create_engine_config", "vllm/engine/arg_utils.py"],
            ],
            ("config", "download", "object", False),
        ),
        # A lazy import is no import phase; what runs while a module is imported is in no later phase.
        (VLLM, [*IMPORT, *ENGINE_CORE], ("engine-init", None, None, False)),
        (VLLM, IMPORT, ("import", None, None, False)),
        (
            VLLM,
            [["kernel_warmup", "vllm/model_executor/warmup/kernel_warmup.py"], *IMPORT],
            ("import", None, None, False),
        ),
        # vLLM before 0.19 waited without a condition; SGLang up to 0.5.9 read rank by rank.
        (
            VLLM,
            [
                ["MessageQueue.acquire_read", "vllm/distributed/device_communicators/shm_broadcast.py"],
                ["MessageQueue.dequeue", "vllm/distributed/device_communicators/shm_broadcast.py"],
                ["get_response", "vllm/v1/executor/multiproc_executor.py"],
                *ENGINE_CORE,
            ],
            ("engine-init", "queue-wait", "worker", False),
        ),
        (
            SGLANG,
            [
                ["_recv", "multiprocessing/connection.py"],
                ["_recv_bytes", "multiprocessing/connection.py"],
                ["recv", "multiprocessing/connection.py"],
                ["_launch_subprocesses", "sglang/srt/entrypoints/engine.py"],
            ],
            ("engine-spawn", "pipe-read", "scheduler", False),
        ),
        # A launcher that waits for something else than its schedulers is nobody's victim.
        (
            SGLANG,
            [
                ["HTTPResponse._read_status", "http/client.py"],
                ["TokenizerManager.__init__", "sglang/srt/managers/tokenizer_manager.py"],
                ["Engine._launch_subprocesses", "sglang/srt/entrypoints/engine.py"],
            ],
            ("engine-spawn", "socket-recv", "object", False),
        ),
        # Plumbing gives way to what it is for.
        (
            VLLM,
            [["Condition.wait", "threading.py"], ["Queue.get", "queue.py"], *PATCH],
            (None, "queue-wait", "threads", False),
        ),
        (VLLM, [["Condition.wait", "threading.py"], *PATCH], (None, "event-wait", "threads", False)),
        (
            VLLM,
            [["_PollLikeSelector.select", "selectors.py"], ["Popen._communicate", "subprocess.py"]],
            (None, "child-wait", "children", False),
        ),
        (VLLM, PATCH, (None, None, None, False)),
        (VLLM, [], (None, None, None, False)),
    ],
)
def test_meaning(profile: Profile, frames: list[list[str]], said: tuple[object, ...]) -> None:
    assert answers(meaning(stack_of(frames), profile)) == said


def test_the_frame_told_is_the_one_that_says_what_is_waited_for() -> None:
    row = next(one for one in SEEN if one["waits_for"] == "engine-core" and one["phase"] == "engine-spawn")
    found = meaning(stack_of(row["frames"]), VLLM)
    assert found.frame
    assert found.frame.function == "wait_for_engine_startup"


@pytest.mark.parametrize(
    ("path", "suffix", "inside"),
    [
        ("/lib/vllm/v1/core.py", "v1/core.py", True),
        ("/lib/vllm/v1/core.py", "1/core.py", False),
        ("v1/core.py", "v1/core.py", True),
        ("/lib/vllm/v1/core.py", "vllm/", True),
        ("vllm/v1/core.py", "vllm/", True),
        ("/lib/my_vllm/v1/core.py", "vllm/", False),
        ("anything", "", True),
    ],
)
def test_in_file(path: str, suffix: str, inside: bool) -> None:
    assert in_file(Frame("f", path), suffix) is inside
    assert in_file(Frame("f", "<x>", path), suffix) is inside
