"""Cases of real vLLM and SGLang starts, each with one fault that was planted: what was planted is what must be told.

Saved with `diagnose --save` from vLLM 0.32 and SGLang 0.5.23 on a CPU and vLLM 0.25.1 on two H200s; paths are made
general. Expectations are what was planted, not what came out. `None` for a rank: the process has none.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.engines import launches
from hangdoc.model.launch import Launch
from hangdoc.model.report import Report
from hangdoc.model.sample import Sample
from hangdoc.session import casefile
from hangdoc.session.comparing import Baselines

CASES = Path(__file__).parents[2] / "data" / "cases"
STUCK = ("hung", "suspect")
# name -> verdicts, role, rank, mechanisms, phases
PLANTED = {
    "vllm-stopped": (("hung",), "worker", "TP1", ("stopped",), ("kv-cache", "memory-profile", "post-load")),
    "vllm-own-mutex": (("hung",), "worker", "TP1", ("mutex-self",), ("distributed-init",)),
    "vllm-gil-in-native-code": (STUCK, "worker", "TP0", ("gil-held", "sleep"), ("compile", "kernel-warmup", "graph-capture")),
    "vllm-state-d": (STUCK, "worker", "TP1", ("uninterruptible",), ("kv-cache", "memory-profile", "post-load")),
    "vllm-file-lock": (STUCK, "engine-core", "", ("file-lock",), ("engine-spawn", "engine-init")),
    "vllm-chatter": (STUCK, "worker", "TP1", ("lock-cycle", "lock-wait"), ("model-init", "weight-load")),
    "vllm-output-not-read": (("hung",), None, None, ("pipe-write",), None),
    "vllm-one-collective-more": (STUCK, "worker", "TP0", ("collective", "collective-mismatch"), ("kv-cache", "memory-profile")),
    "vllm-mute-hub": (STUCK, "api-server", "", ("socket-recv", "download"), ("config", "import")),
    "vllm-cuda-rank-asleep": (STUCK, "worker", "TP1", ("sleep",), ("memory-profile",)),
    "vllm-cuda-deadlock": (STUCK, "worker", "TP1", ("lock-cycle", "lock-wait"), ("kernel-warmup", "kv-cache", "compile")),
    "sglang-eventfd-loop": (STUCK, "scheduler", "TP1", ("busy-loop", "sleep-loop"), ("post-load", "memory-profile", "kv-cache")),
    "sglang-eventfd-overdue": (STUCK, "scheduler", "TP1", ("sleep-loop",), ("post-load", "memory-profile", "kv-cache")),
    "sglang-launcher-http": (STUCK, "launcher", "", ("socket-recv",), None),
    "sglang-warmup": (STUCK, "scheduler", "TP1", ("sleep", "sleep-loop"), ("warmup",)),
    "sglang-stopped-while-sibling-loads": (("hung",), "scheduler", "TP1", ("stopped",), ("weight-load",)),
    "sglang-barrier-mismatch": (STUCK, "scheduler", "TP1", ("collective", "collective-mismatch"), None),
    "sglang-fifo": (STUCK, "scheduler", "TP0", ("fifo-open",), None),
    "sglang-child": (STUCK, "scheduler", "", ("child-wait",), ("weight-load", "distributed-init")),
    "sglang-two-nodes-locked": (("hung",), "scheduler", "TP1", ("lock-cycle",), ("kv-cache", "memory-profile")),
    "sglang-two-nodes-second-missing": (STUCK, "scheduler", "TP0", ("rendezvous",), ("distributed-init",)),
    "vllm-two-nodes-second-missing": (STUCK, "worker", "TP0", ("rendezvous",), ("distributed-init",)),
    "sglang-two-nodes-no-route": (STUCK, "scheduler", "TP1", ("socket-connect",), ("distributed-init",)),
    "sglang-two-nodes-wrong-address": (STUCK, "scheduler", "TP1", ("socket-connect",), ("distributed-init",)),
    "sglang-second-node-missing": (STUCK, "scheduler", "TP0", ("rendezvous",), ("distributed-init",)),
}  # fmt: skip


def unpacked(name: str, folder: Path) -> tuple[casefile.Header, Iterator[Sample]]:
    """Header and samples of a packed case."""
    path = folder / "a.case"
    path.write_bytes(gzip.decompress((CASES / f"{name}.case.gz").read_bytes()))
    return casefile.read(path)


def report_of(name: str, folder: Path) -> Report:
    """The report of a packed case, without any baseline."""
    header, samples = unpacked(name, folder)
    diagnosis = Diagnosis(header.root)
    for sample in samples:
        diagnosis.add(sample)
    return diagnosis.report("0", mode="case")


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_what_was_planted_is_told_and_nobody_else_is_named(name: str, tmp_path: Path) -> None:
    verdicts, role, rank, mechanisms, phases = PLANTED[name]
    report = report_of(name, tmp_path)
    assert report.verdict in verdicts
    assert report.culprits
    if role is not None:
        assert {(one.role, one.rank) for one in report.culprits} == {(role, rank)}
    assert {one.mechanism for one in report.culprits} <= set(mechanisms)
    assert report.phase is not None
    assert phases is None or report.phase.id in phases


@pytest.mark.parametrize(
    ("name", "host", "object_"),
    [
        ("sglang-two-nodes-locked", "gpu02", "thread"),  # an AB-BA of rank 1, on the second host
        ("sglang-two-nodes-second-missing", "gpu01", "node rank 1"),  # its command was never given
        ("vllm-two-nodes-second-missing", "gpu01", "node rank 1"),
        ("sglang-two-nodes-no-route", "gpu02", "10.99.0.9:5000"),  # an address that is not routed
        ("sglang-two-nodes-wrong-address", "gpu02", "10.77.0.99:5000"),  # nobody has that address
    ],
)
def test_of_two_hosts_the_right_one_is_named(name: str, host: str, object_: str, tmp_path: Path) -> None:
    report = report_of(name, tmp_path)
    (one,) = report.culprits
    assert one.host == host
    assert object_ in (one.object or "")
    assert all(pid < 1 << 22 for pid in [row.pid for row in report.processes] + [row.pid for row in report.ranks])


def test_one_node_of_two_is_not_hung_for_waiting_in_its_loop(tmp_path: Path) -> None:
    report = report_of("sglang-two-nodes-second-good", tmp_path)  # only the second host was looked at
    assert report.verdict == "ready"
    assert any("node rank 0" in reason for reason in report.reasons)


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in CASES.glob("*good*")))
def test_a_good_start_is_never_called_stuck(name: str, tmp_path: Path) -> None:
    assert report_of(name, tmp_path).verdict in ("progressing", "slow", "ready")


def test_every_case_is_expected_to_be_something() -> None:
    assert {path.name.split(".")[0] for path in CASES.glob("*.gz") if "good" not in path.name} == set(PLANTED)


def test_the_story_against_recorded_starts(tmp_path: Path) -> None:
    """The story that hangdoc was written for, on a real SGLang and against three recorded starts of it: after its weights a
    rank only wakes an eventfd, the log stands still, the launcher idles, nothing listens."""
    header, samples = unpacked("sglang-eventfd-overdue", tmp_path)
    diagnosis, held = Diagnosis(header.root), Baselines()
    for sample in samples:
        diagnosis.add(sample)
        held.attach(diagnosis)
    report = diagnosis.report("0", mode="case")
    assert (report.verdict, report.confidence) == ("hung", "likely")
    assert report.phase is not None
    assert report.phase.id in ("post-load", "memory-profile", "kv-cache")
    assert [(one.role, one.rank, one.mechanism) for one in report.culprits] == [("scheduler", "TP1", "sleep-loop")]
    assert report.culprits[0].frame is not None
    assert report.culprits[0].frame.function == "_eventfd"
    beside = report.baseline
    assert beside is not None
    assert (beside.name, beside.runs) == ("sglang-0.5.23-cpu-tiny-tp2", 3)
    assert (beside.overdue_line or "").startswith("KV Cache is allocated.")
    assert (beside.overdue_by_s or 0) > 60
    assert "log: 68 lines and 28,093 bytes now" in beside.facts[0]
    assert "93 when ready" in beside.facts[0]
    assert any("took at most 2 s in 3 good starts" in one for one in report.reasons)
    launcher = next(one for one in report.ranks if one.role == "launcher")
    assert (launcher.quiet_s or 0) >= 14  # idle, and a victim:
    (wait,) = [one for one in report.waits if one.source.pid == launcher.pid]
    assert report.culprits[0].pid in {one.pid for one in wait.target or ()}
    assert any(one.state == "not listening" and one.health == "refused" for one in report.ports)


@pytest.mark.parametrize("name", ["sglang-good-1", "vllm-stopped", "sglang-two-nodes-locked"])
def test_samples_that_agree_in_what_is_telling_show_the_same_launches(name: str, tmp_path: Path) -> None:
    _, samples = unpacked(name, tmp_path)
    known: dict[str, list[Launch]] = {}
    again = 0
    for sample in samples:
        key, found = repr(launches.telling(sample)), launches.find(sample)
        again += key in known
        assert known.setdefault(key, found) == found
    assert again
