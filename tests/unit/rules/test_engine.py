"""Three-valued evaluation: truth tables by hand, and what no condition may ever do when facts are taken away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hangdoc.rules import examples
from hangdoc.rules.conditions import BadCondition, Condition, check
from hangdoc.rules.engine import evaluate
from hangdoc.rules.examples import Told
from hangdoc.rules.values import Who, World

YES = Condition(fact="listening", is_=True)
NO = Condition(fact="listening", is_=False)
GONE = Condition(fact="port_taken", is_=True)


def world(launch: dict[str, Any], *members: dict[str, Any], complete: bool = True) -> World:
    told = tuple(Who(Told(f"m{at}", facts), culprit=at == 0, victim=at > 0) for at, facts in enumerate(members))
    return World(Told("", launch), (Told("h", {"cpus": 8}),), told, complete)


def truth(condition: Condition, where: World) -> bool | None:
    return evaluate(condition, where).truth


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (YES, True),
        (NO, False),
        (GONE, None),
        (Condition(all=(YES, YES)), True),
        (Condition(all=(YES, GONE)), None),
        (Condition(all=(NO, GONE)), False),
        (Condition(any=(NO, NO)), False),
        (Condition(any=(NO, GONE)), None),
        (Condition(any=(YES, GONE)), True),
        (Condition(not_=YES), False),
        (Condition(not_=NO), True),
        (Condition(not_=GONE), None),
    ],
)
def test_logic_of_three_values(condition: Condition, expected: bool | None) -> None:
    assert truth(condition, world({"listening": True})) is expected


SLEEPS = Condition(fact="state", is_="S")


@pytest.mark.parametrize(
    ("quantifier", "states", "expected"),
    [
        ("any_rank", ["S", "R"], True),
        ("any_rank", ["R", "R"], False),
        ("any_rank", ["R", None], None),
        ("all_ranks", ["S", "S"], True),
        ("all_ranks", ["S", "R"], False),
        ("all_ranks", ["S", None], None),
        ("culprit", ["S", "R"], True),
        ("culprit", ["R", "S"], False),
        ("victims", ["R", "S"], True),
        ("victims", ["S"], None),
        ("any_member", ["R", "S"], True),
    ],
)
def test_quantifiers(quantifier: str, states: list[str | None], expected: bool | None) -> None:
    members = [{} if one is None else {"state": one} for one in states]
    asked: dict[str, Any] = {quantifier: SLEEPS}
    assert truth(Condition(**asked), world({}, *members)) is expected


def test_ranks_on_hosts_that_were_not_looked_at_leave_it_open() -> None:
    some = world({}, {"state": "S"}, {"state": "S"}, complete=False)
    assert truth(Condition(all_ranks=SLEEPS), some) is None
    assert truth(Condition(any_rank=Condition(fact="state", is_="R")), some) is None
    assert truth(Condition(any_rank=SLEEPS), some) is True


def test_one_process_must_meet_all_within_a_quantifier() -> None:
    both = Condition(any_rank=Condition(all=(SLEEPS, Condition(fact="role", is_="worker"))))
    assert truth(both, world({}, {"state": "S", "role": "launcher"}, {"state": "R", "role": "worker"})) is False


@pytest.mark.parametrize(
    ("leaf", "value", "expected"),
    [
        ({"fact": "env", "name": "X", "set": True}, {"env": {"X": "1"}}, True),
        ({"fact": "env", "name": "X", "set": False}, {"env": {"Y": "1"}}, True),
        ({"fact": "env", "name": "X", "set": False}, {}, None),
        ({"fact": "env", "name": "X", "matches": "a+"}, {"env": {}}, False),
        ({"fact": "log", "matches": "err.r"}, {"log": ["an error", "x"]}, True),
        ({"fact": "log", "matches": "err.r"}, {"log": []}, False),
        ({"fact": "log", "matches": "err.r"}, {}, None),
        ({"fact": "version", "within": ">=0.4,<0.6"}, {"version": "0.5.10.post1"}, True),
        ({"fact": "version", "within": ">=0.6"}, {"version": "0.5.10"}, False),
        ({"fact": "version", "within": ">=0.6"}, {"version": "main"}, None),
        ({"fact": "age", "older_than": "10 min"}, {"age": 600}, True),
        ({"fact": "age", "younger_than": "10 min"}, {"age": 601}, False),
        ({"fact": "port", "in": (1, 2)}, {"port": 2}, True),
        ({"fact": "port", "changed": True}, {"port": 2}, None),
        ({"fact": "port", "changed": True}, {"port": None}, False),
        ({"fact": "port", "changed": False}, {"port": None}, True),
        ({"fact": "programs", "is": "ninja"}, {"programs": ["ninja", "cicc"]}, True),
        ({"fact": "programs", "in": ("gcc", "cicc")}, {"programs": ["ninja", "cicc"]}, True),
        ({"fact": "programs", "matches": "^cc1"}, {"programs": ["ninja"]}, False),
        ({"fact": "programs", "set": False}, {"programs": []}, True),
    ],
)  # fmt: skip
def test_matchers(leaf: dict[str, Any], value: dict[str, Any], expected: bool | None) -> None:
    plain = {{"is": "is_", "in": "in_"}.get(name, name): one for name, one in leaf.items()}
    condition = Condition(**plain)
    check(condition)
    assert truth(condition, world(value)) is expected


def test_a_condition_speaks_of_one_culprit_throughout() -> None:
    both = Condition(all=(Condition(culprit=SLEEPS), Condition(culprit=Condition(fact="role", is_="worker"))))
    some = world({}, {"state": "S", "role": "launcher"}, {"state": "R", "role": "worker"})
    two = replace(some, members=tuple(replace(one, culprit=True) for one in some.members))
    assert truth(both, two) is False
    assert truth(
        both, replace(two, members=(*two.members, Who(Told("m2", {"state": "S", "role": "worker"}), culprit=True)))
    )


def test_a_set_is_told_by_the_part_that_met_the_matcher() -> None:
    found = evaluate(Condition(fact="programs", matches="^c"), world({"programs": ["ninja", "cicc", "cudafe"]}))
    assert found.held[0].value == ("cicc", "cudafe")


def test_what_is_missing_is_named_with_its_probe() -> None:
    (lack,) = evaluate(Condition(culprit=Condition(fact="innermost", matches="x")), world({}, {})).lacks
    assert (lack.what, lack.missing.probe) == ("innermost frame of m0", "stacks")


FACTS: dict[str, Any] = {"listening": True, "port_taken": False, "port": 3, "programs": ["a"], "log": ["one line"]}
LEAVES = st.sampled_from(
    [
        YES,
        NO,
        GONE,
        Condition(fact="port", at_least=3),
        Condition(fact="port", at_most=2),
        Condition(fact="programs", set=True),
        Condition(fact="log", matches="line"),
        Condition(fact="log", matches="nothing"),
        Condition(culprit=SLEEPS),
        Condition(victims=SLEEPS),
        Condition(any_rank=SLEEPS),
        Condition(all_ranks=SLEEPS),
        Condition(any_member=SLEEPS),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.lists(below, min_size=1, max_size=3).map(lambda parts: Condition(all=tuple(parts))),
        st.lists(below, min_size=1, max_size=3).map(lambda parts: Condition(any=tuple(parts))),
        below.map(lambda part: Condition(not_=part)),
    ),
    max_leaves=8,
)


@given(TREES, st.sets(st.sampled_from(sorted(FACTS))), st.lists(st.sampled_from(["S", "R"]), max_size=3), st.data())
def test_taking_facts_away_only_ever_makes_an_answer_unknown(
    condition: Condition, taken: set[str], states: list[str], data: st.DataObject
) -> None:
    full = world(FACTS, *({"state": one} for one in states))
    less = replace(full, launch=Told("", {name: value for name, value in FACTS.items() if name not in taken}))
    hidden = data.draw(st.sets(st.integers(0, max(len(states) - 1, 0))))
    members = tuple(replace(one, subject=Told("m", {})) if at in hidden else one for at, one in enumerate(full.members))
    before, after = truth(condition, full), truth(condition, replace(less, members=members))
    assert after in (before, None)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Condition(fact="no_such"), "no fact"),
        (Condition(fact="state", is_="S"), "quantifier|below"),
        (Condition(culprit=Condition(fact="port", is_=1)), "outside"),
        (Condition(culprit=Condition(any_rank=SLEEPS)), "within another"),
        (Condition(fact="port"), "no matcher"),
        (Condition(fact="port", matches="x"), "takes"),
        (Condition(fact="port", is_="x"), "is not"),
        (Condition(fact="listening", is_=1), "is not"),
        (Condition(fact="env", set=True), "needs"),
        (Condition(fact="port", name="x", is_=1), "takes no"),
        (Condition(fact="log", matches="(a"), "pattern"),
        (Condition(fact="log", matches=r"(a)\1"), "pattern"),
        (Condition(fact="log", matches="(?=a)"), "pattern"),
        (Condition(fact="log", matches="x" * 500), "pattern"),
        (Condition(fact="age", older_than="soon"), "amount"),
        (Condition(fact="version", within="~=1"), "range"),
        (Condition(), "exactly one"),
        (Condition(all=(YES,), fact="port", is_=1), "exactly one"),
        (Condition(all=(YES,), is_=1), "without a fact"),
    ],
)
def test_ill_made_conditions_are_refused(bad: Condition, said: str) -> None:
    with pytest.raises(BadCondition, match=said):
        check(bad)


def test_endless_nesting_is_refused() -> None:
    deep = YES
    for _ in range(200):
        deep = Condition(not_=deep)
    with pytest.raises(BadCondition, match="deeper"):
        check(deep)


def test_a_pattern_that_explodes_elsewhere_takes_no_time() -> None:
    evil = Condition(fact="log", matches="(a+)+$")
    check(evil)
    assert truth(evil, world({"log": ["a" * 100_000 + "b"]})) is False
    assert examples.ListedLines(("x",)).find("x") == ("x",)


def test_steps_are_filled_quoted_and_say_on_which_host() -> None:
    from hangdoc.rules.form import Step
    from hangdoc.rules.known import step_words

    step = Step("look at {path}", "ls -l {path}; ps {pid} | awk '{{print}}'")
    places = {"pid": "7", "path": "/a b;c"}
    assert step_words(step, places) == "look at '/a b;c': ls -l '/a b;c'; ps 7 | awk '{print}'"
    assert step_words(step, {"pid": "7"}) == "look at PATH: ls -l PATH; ps 7 | awk '{print}'"
    assert step_words(step, {**places, "on": "gpu02"}).startswith("on gpu02: look at")
    again = Step("look closer", "hangdoc diagnose --deep {pid}; hangdoc watch {root}")
    there = {"pid": "7", "root": "3", "on": "gpu02", "root_on": "gpu01"}
    assert step_words(again, there) == "look closer: hangdoc diagnose --deep gpu02:7; hangdoc watch gpu01:3"
    assert step_words(again, {"pid": "7", "root": "3"}) == "look closer: hangdoc diagnose --deep 7; hangdoc watch 3"
    assert "(this changes the target): kill 7" in step_words(Step("end it", "kill {pid}", changes=True), places)
