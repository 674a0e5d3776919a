"""The packaged YAML: it decodes, every pattern compiles and has an example, and a typo is an error with its place."""

from __future__ import annotations

import msgspec
import pytest

from hangdoc import yamls
from hangdoc.engines.lines import NOBODY, Reader, reader
from hangdoc.engines.load import DataError, decode, merged_frames, pattern, profiles
from hangdoc.engines.profile import Mark, Prefix, Profile, Title
from hangdoc.engines.roles import title_of, title_phase, titled
from hangdoc.engines.versions import clauses
from hangdoc.model.sample import Process
from hangdoc.model.words import MECHANISMS, PHASES, ROLES

KNOWN = [profiles()["vllm"], profiles()["sglang"]]
MARKS = [
    pytest.param(profile, mark, id=f"{profile.engine}-{mark.match[:40]}") for profile in KNOWN for mark in profile.marks
]
TITLES = [pytest.param(profile, title, id=title.example) for profile in KNOWN for title in profile.titles]
PREFIXES = [pytest.param(profile, prefix, id=prefix.example) for profile in KNOWN for prefix in profile.prefixes]
WAITED_FOR = {*ROLES, "ranks", "clients", "threads", "children", "object"}
# A release inside the range of an entry, tried from the newest.
RELEASES = {
    "vllm": ["0.32.0", "0.25.1", "0.14.1", "0.11.0", "0.9.2", "0.9.1", "0.8.5"],
    "sglang": ["0.5.23", "0.5.9", "0.4.1"],
}


def reader_for(profile: Profile, mark: Mark) -> Reader:
    return next(found for version in RELEASES[profile.engine] if mark in (found := reader(profile, version)).marks)


def test_both_engines_and_the_unknown_one_are_there() -> None:
    assert set(profiles()) == {"vllm", "sglang", "unknown"}


@pytest.mark.parametrize(("profile", "mark"), MARKS)
def test_a_mark_is_the_first_to_match_its_example(profile: Profile, mark: Mark) -> None:
    assert mark.example
    assert reader_for(profile, mark).mark(mark.example) == mark


@pytest.mark.parametrize(("profile", "mark"), MARKS)
def test_a_mark_is_valid(profile: Profile, mark: Mark) -> None:
    clauses(mark.versions)
    assert mark.phase in [spec.id for spec in profile.phases]


@pytest.mark.parametrize(("profile", "title"), TITLES)
def test_a_title_is_the_first_to_match_its_example(profile: Profile, title: Title) -> None:
    found = titled(Process(1, 0, 0.0, "S", "python", cmdline=(title.example,)), profile)
    assert found is not None
    assert found[0] == title


@pytest.mark.parametrize(("profile", "title"), TITLES)
def test_a_zombie_keeps_the_role_by_its_name_of_15_characters(profile: Profile, title: Title) -> None:
    zombie = Process(1, 0, 0.0, "Z", title.example[:15], cmdline=())
    found = titled(zombie, profile)
    assert title_of(zombie) == title.example[:15]
    assert title.example.startswith("ray::") or (found is not None and found[0].role == title.role)


@pytest.mark.parametrize(("profile", "prefix"), PREFIXES)
def test_a_prefix_is_the_first_to_match_its_example(profile: Profile, prefix: Prefix) -> None:
    first = next(one for one in profile.prefixes if pattern(one.match).search(prefix.example))
    assert first == prefix
    assert reader(profile).writer(prefix.example)[0] != NOBODY


@pytest.mark.parametrize("profile", profiles().values(), ids=lambda one: one.engine)
def test_frame_rules_say_something_in_known_words(profile: Profile) -> None:
    for rule in merged_frames(profile):
        assert rule.phase or rule.mechanism or rule.waits_for or rule.idle, rule
        assert rule.file or rule.function, rule
        assert rule.phase is None or rule.phase in PHASES
        assert rule.mechanism is None or rule.mechanism in MECHANISMS
        assert rule.waits_for is None or rule.waits_for in WAITED_FOR, rule


@pytest.mark.parametrize("profile", KNOWN, ids=lambda one: one.engine)
def test_no_frame_rule_is_written_twice(profile: Profile) -> None:
    places = [(one.function, one.file, one.under, one.leaf) for one in merged_frames(profile)]
    assert [one for one in places if places.count(one) > 1] == []


@pytest.mark.parametrize("profile", KNOWN, ids=lambda one: one.engine)
def test_every_other_pattern_compiles(profile: Profile) -> None:
    for text in (*profile.roots, *profile.chatter, *profile.fatal, *profile.echoes, *profile.child_roles):
        pattern(text)


@pytest.mark.parametrize("profile", KNOWN, ids=lambda one: one.engine)
def test_phases_come_once_each_and_end_ready(profile: Profile) -> None:
    ids = [spec.id for spec in profile.phases]
    assert len(ids) == len(set(ids))
    assert ids[0] == "import"
    assert ids[-1] == "ready"
    assert all(spec.ceiling_s > 0 and spec.next_line for spec in profile.phases[:-1])


MINIMAL = """
engine: x
name: X
packages: []
roots: []
default_port: 1
health: /
titles: []
prefixes: []
phases: []
marks: [{match: a, phase: ready}]
frames: []
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("health: /", "healht: /", "x.yaml: .*healht"),
        ("phase: ready}", "phase: ready, role: launcher}", r"x.yaml: .*role.*marks"),
        ("phase: ready}", "phase: raedy}", r"x.yaml: .*raedy.*marks"),
        ("default_port: 1", "default_port: one", r"x.yaml: .*default_port"),
    ],
)
def test_a_typo_is_an_error_that_names_file_and_key(old: str, new: str, said: str) -> None:
    good, bad = (msgspec.msgpack.encode(yamls.load(text)) for text in (MINIMAL, MINIMAL.replace(old, new)))
    decode(good, "x.yaml", Profile)
    with pytest.raises(DataError, match=said):
        decode(bad, "x.yaml", Profile)


def test_a_bad_pattern_is_an_error_that_names_it() -> None:
    with pytest.raises(DataError, match=r"\(open"):
        pattern("(open")


def test_a_title_tells_how_far_its_bearer_got() -> None:
    vllm = profiles()["vllm"]
    assert [title_phase(one, vllm) for one in ("VLLM::Worker", "VLLM::Worker_TP1", "python x")] == [
        "engine-init",
        "model-init",
        None,
    ]
