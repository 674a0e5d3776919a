"""The whole catalogue: its examples, the healthy cases, and what taking evidence away may do to each cause."""

from __future__ import annotations

import functools
import gzip
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.cli.readable import unread
from hangdoc.model.report import Report
from hangdoc.model.sample import Sample
from hangdoc.rules import load, of_launch
from hangdoc.rules.conditions import fits
from hangdoc.rules.examples import Told, failures, world_of
from hangdoc.rules.fact import PROBES
from hangdoc.rules.facts import FACTS
from hangdoc.rules.form import PLACES, KnownCause
from hangdoc.rules.gather import Looked
from hangdoc.rules.known import HOST, MEMBER, Known, gathered
from hangdoc.rules.values import Seen, Who
from hangdoc.rules.weigh import weigh
from hangdoc.session import casefile
from hangdoc.shipped import FOLDERS

CASES = sorted((Path(__file__).parents[2] / "data" / "cases").glob("*.gz"))
CAUSES = [load.read(path) for path in load.files(FOLDERS["causes"])]
by_id = {one.id: one for one in CAUSES}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda one: one.id)
def test_examples_give_what_they_expect(cause: KnownCause) -> None:
    assert failures(cause) == []


@pytest.mark.parametrize("cause", CAUSES, ids=lambda one: one.id)
def test_names_that_it_asks_for_are_read_by_a_probe(cause: KnownCause) -> None:
    assert list(unread(cause)) == []


def test_every_step_is_a_command_that_a_shell_understands(tmp_path: Path) -> None:
    places = dict.fromkeys(PLACES, "4711")
    for cause in CAUSES:
        steps = [one.run.format(**places) for one in cause.next if one.run]
        script = tmp_path / cause.id
        script.write_text("\n".join(steps))
        done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False)
        assert (cause.id, done.returncode, done.stderr) == (cause.id, 0, "")


def test_no_step_waits_for_a_driver_or_a_mount_that_does_not_answer() -> None:
    asks = re.compile(r"(?<![\w-])(?:nvidia-smi|df -\w)")
    for cause in CAUSES:
        for one in (step.run for step in cause.next if not step.changes):
            bare = [at.start() for at in asks.finditer(one) if not re.search(r"timeout -k 1 \d+ $", one[: at.start()])]
            assert bare == [] or "/dev/shm" in one, (cause.id, one)


def test_logs_are_searched_as_text() -> None:
    for cause in CAUSES:
        for one in (step.run for step in cause.next):
            for found in re.finditer(r"grep ([^|;]*)\{log\}", one):
                assert re.match(r"(?:-\w+ )*-\w*a", found[1]), (cause.id, one)


@pytest.mark.parametrize("path", load.files(FOLDERS["causes"]), ids=lambda one: one.stem)
def test_a_file_lies_in_the_folder_of_a_phase_of_its_cause(path: Path) -> None:
    cause = load.read(path)  # reads as it does those of others
    assert path.parent.name in (cause.phases or ("any",))


def test_every_fact_is_read_by_one_line_and_comes_from_a_known_probe() -> None:
    read: dict[str, Mapping[str, object]] = {"launch": of_launch.GETTERS, "host": HOST, "member": MEMBER}
    for scope, getters in read.items():
        assert set(getters) == {one.name for one in FACTS.values() if one.scope == scope}
    assert {one.probe for one in FACTS.values()} <= set(PROBES)


@functools.cache
def samples_of(path: Path) -> tuple[int, tuple[Sample, ...]]:
    with tempfile.NamedTemporaryFile(suffix=".case") as file:
        file.write(gzip.decompress(path.read_bytes()))
        file.flush()
        header, samples = casefile.read(Path(file.name))
        return header.root, tuple(samples)


def report_of(path: Path, without: Callable[[Sample], Sample] = lambda one: one) -> Report:
    root, samples = samples_of(path)
    diagnosis = Diagnosis(root, reasons=Known(load.catalogue()))
    for sample in samples:
        diagnosis.add(without(sample))
    return diagnosis.report("0", mode="case")


@pytest.mark.parametrize("path", CASES, ids=lambda one: one.name.split(".")[0])
def test_every_fact_of_a_real_launch_is_of_its_kind_or_missing(path: Path) -> None:
    root, samples = samples_of(path)
    diagnosis = Diagnosis(root)
    for sample in samples:
        diagnosis.add(sample)
    view, pictures, edges = diagnosis._seen()
    assert view is not None
    world = gathered(Looked(view, pictures, edges, diagnosis._judged(view, pictures, edges, ended=True)))
    subjects = {"launch": [world.launch], "host": world.hosts, "member": [one.subject for one in world.members]}
    seen = 0
    for fact in FACTS.values():
        for subject in subjects[fact.scope]:
            found = subject.get(fact.name, "any" if fact.named else "")
            if isinstance(found, Seen) and found.value is not None:
                seen += 1
                assert fact.kind == "lines" or fits(fact.kind, found.value), (fact.name, found.value)
    assert seen > 50


@pytest.mark.parametrize("path", [one for one in CASES if "good" in one.name], ids=lambda one: one.name.split(".")[0])
def test_no_cause_hits_on_a_healthy_start(path: Path) -> None:
    assert [one.id for one in report_of(path).causes] == []


HITS = {
    "vllm-one-collective-more": "collective-that-others-skip",
    "sglang-barrier-mismatch": "ranks-in-different-collectives",
    "sglang-child": "child-process-does-not-end",
    "sglang-eventfd-loop": "polls-without-end",
    "sglang-fifo": "named-pipe-not-opened",
    "sglang-launcher-http": "local-service-never-answers",
    "sglang-warmup": "rank-asleep",
    "vllm-chatter": "lock-not-given-back",
    "vllm-cuda-deadlock": "lock-not-given-back",
    "vllm-cuda-rank-asleep": "rank-asleep",
    "vllm-gil-in-native-code": "gil-held-in-native-code",
    "vllm-own-mutex": "mutex-held-by-itself",
    "vllm-state-d": "vfork-child-holds-parent",
    "sglang-second-node-missing": "peer-not-joined",
    "sglang-stopped-while-sibling-loads": "rank-stopped",
    "vllm-stopped": "rank-stopped",
    "vllm-mute-hub": "hub-unreachable",
    "vllm-output-not-read": "output-not-read",
}


@pytest.mark.parametrize("name", sorted(HITS))
def test_what_was_planted_is_the_first_cause(name: str) -> None:
    path = next(one for one in CASES if one.name == f"{name}.case.gz")
    assert report_of(path).causes[0].id == HITS[name]


def test_a_limit_that_a_readable_cgroup_does_not_have_is_known_to_be_absent() -> None:
    path = next(one for one in CASES if one.name == "sglang-eventfd-loop.case.gz")
    limits = {"cpu-quota-throttles", "thread-limit-reached"}
    assert not limits & {one.id for one in report_of(path).undecided}
    assert "cpu-quota-throttles" in {one.id for one in report_of(path, WITHOUT["host"]).undecided}


def _strip(sample: Sample, **empty: Any) -> Sample:
    processes = {pid: replace(one, **empty) for pid, one in sample.processes.items()}
    return replace(sample, processes=processes)


WITHOUT: dict[str, Callable[[Sample], Sample]] = {
    "stacks": lambda one: _strip(one, stacks=None),
    "fds": lambda one: replace(_strip(one, fds=None), file_locks=[], rings=[]),
    "environ": lambda one: _strip(one, env=None, limits=None),
    "packages": lambda one: _strip(one, packages=None, modified=None),
    "sockets": lambda one: replace(one, sockets=[], probes=tuple(name for name in one.probes if name != "sockets")),
    "logs": lambda one: replace(one, logs=[]),
    "host": lambda one: replace(one, host_facts=None),
    "storage": lambda one: replace(_strip(one, weights=None, libraries=None), storage=None),
    "machine": lambda one: replace(one, machine=None),
    "network": lambda one: replace(one, networks=None),
    "health": lambda one: replace(one, health=[]),
}


@pytest.mark.parametrize("path", CASES, ids=lambda one: one.name.split(".")[0])
def test_dropping_a_probe_makes_no_cause_hit(path: Path) -> None:
    before = {one.id for one in report_of(path).causes}
    hidden = {name for one in before for name in by_id[one].explains}  # what explained them may be gone
    more = {
        probe: {one.id for one in report_of(path, drop).causes} - before - hidden for probe, drop in WITHOUT.items()
    }
    assert {probe: found for probe, found in more.items() if found} == {}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_taking_facts_from_an_example_never_makes_it_hit(data: st.DataObject) -> None:
    cause = data.draw(st.sampled_from(CAUSES))
    world = world_of(data.draw(st.sampled_from(cause.examples)))
    before = weigh(cause, world).truth

    def less(subject: Any) -> Told:
        gone = data.draw(st.sets(st.sampled_from(sorted(subject.facts)))) if subject.facts else set()
        return Told(subject.label, {name: value for name, value in subject.facts.items() if name not in gone})

    members = tuple(Who(less(one.subject), one.culprit, one.victim, one.rank) for one in world.members)
    hosts = tuple(less(one) for one in world.hosts)
    after = weigh(cause, structs.replace(world, launch=less(world.launch), hosts=hosts, members=members)).truth
    assert after in (before, None)
