"""Order of phases, and phases raised by those who wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.engines.load import profiles
from hangdoc.engines.meanings import Meaning
from hangdoc.engines.phases import later, lift, order, ordinal
from hangdoc.model.launch import Launch, Member
from hangdoc.model.words import PHASES, Phase

VLLM, SGLANG = profiles()["vllm"], profiles()["sglang"]
ARGS = st.dictionaries(
    st.sampled_from(["enforce-eager", "disable-cuda-graph", "device", "skip-server-warmup", "load-format"]),
    st.sampled_from(["", "cpu", "dummy", "false"]),
)


def launch(engine: str, args: dict[str, str]) -> Launch:
    return Launch("h", 1, engine, args=args)


@pytest.mark.parametrize(
    ("engine", "args", "missing"),
    [
        ("vllm", {}, set()),
        ("vllm", {"enforce-eager": ""}, {"compile", "graph-capture"}),
        ("vllm", {"enforce-eager": "False"}, set()),
        ("vllm", {"load-format": "dummy"}, {"download"}),
        ("sglang", {"disable-cuda-graph": ""}, {"graph-capture"}),
        ("sglang", {"device": "cpu"}, {"graph-capture"}),
        ("sglang", {"device": "cuda"}, set()),
        ("sglang", {"skip-server-warmup": ""}, {"warmup"}),
    ],
)
def test_arguments_remove_phases(engine: str, args: dict[str, str], missing: set[str]) -> None:
    profile = profiles()[engine]
    found = {spec.id for spec in order(profile, launch(engine, args))}
    assert {spec.id for spec in profile.phases} - found == missing


@given(st.sampled_from(["vllm", "sglang"]), ARGS)
def test_ordinals_keep_the_order_of_the_profile(engine: str, args: dict[str, str]) -> None:
    profile = profiles()[engine]
    phases = order(profile, launch(engine, args))
    places = [ordinal(phases, spec.id) for spec in profile.phases]
    assert places == sorted(places)
    assert [ordinal(phases, spec.id) for spec in phases] == list(range(1, len(phases) + 1))


@given(st.sampled_from(["vllm", "sglang"]), st.sampled_from([None, *PHASES]), st.sampled_from([None, *PHASES]))
def test_later_is_never_earlier(engine: str, one: Phase | None, other: Phase | None) -> None:
    phases = order(profiles()[engine], launch(engine, {}))
    found = later(phases, one, other)
    assert found in (one, other)
    assert ordinal(phases, found) == max(ordinal(phases, one), ordinal(phases, other))


def test_no_phase_is_before_all_and_an_unknown_engine_has_none() -> None:
    assert ordinal(order(VLLM, launch("vllm", {})), None) == 0
    assert order(profiles()["unknown"], launch("unknown", {})) == ()


VLLM_TREE = Launch(
    "h", 1, "vllm",
    members={
        1: Member(1, 0.0, "api-server"),
        2: Member(2, 1.0, "engine-core", ppid=1),
        3: Member(3, 2.0, "worker", ppid=2),
        4: Member(4, 2.0, "worker", ppid=2),
    },
)  # fmt: skip


def test_who_waits_for_an_answer_raises_those_who_owe_it() -> None:
    phases = order(VLLM, VLLM_TREE)
    found: dict[int, Phase | None] = {1: "engine-spawn", 2: "kernel-warmup", 3: "post-load", 4: None}
    said = {
        2: [Meaning("kernel-warmup", "queue-wait", "worker")],
        3: [Meaning("memory-profile", None, "engine-core", idle=True)],
    }
    assert lift(phases, VLLM_TREE, found, said) == {
        1: "engine-spawn",
        2: "kernel-warmup",
        3: "kernel-warmup",
        4: "kernel-warmup",
    }


def test_who_waits_for_a_child_to_come_up_raises_nobody() -> None:
    phases = order(VLLM, VLLM_TREE)
    found: dict[int, Phase | None] = {1: "engine-spawn", 2: "engine-init", 3: "import", 4: "import"}
    said = {1: [Meaning("engine-spawn", None, "engine-core")], 2: [Meaning("engine-init", None, "worker")]}
    assert lift(phases, VLLM_TREE, found, said) == found


def test_who_waits_for_its_peers_or_its_parent_raises_nobody() -> None:
    phases = order(VLLM, VLLM_TREE)
    found: dict[int, Phase | None] = {2: "engine-init", 3: "kv-cache", 4: "weight-load"}
    said = {3: [Meaning("kv-cache", "collective", "ranks"), Meaning("kv-cache", "rendezvous", "engine-core")]}
    assert lift(phases, VLLM_TREE, found, said) == found
