"""Questions decode without msgspec as with it, and the zip is what it says."""

from __future__ import annotations

import ast
import builtins
import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc import codec
from hangdoc.agent import bootstrap, bundle, look, tick, wire
from hangdoc.model.ask import Ask, HealthAsk
from hangdoc.model.plain import to_plain
from hangdoc.model.sample import Fd, FutexWait, Io, Process, Thread

NUMBERS = st.integers(0, 2**63 - 1)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HEALTH = st.builds(HealthAsk, pid=NUMBERS, port=NUMBERS, path=WORDS)
ASKS = st.builds(
    Ask,
    id=NUMBERS,
    probes=st.lists(WORDS).map(tuple),
    pids=st.lists(NUMBERS).map(tuple),
    stack_pids=st.lists(NUMBERS).map(tuple),
    thread_pids=st.lists(NUMBERS).map(tuple),
    logs=st.lists(WORDS).map(tuple),
    log_offsets=st.dictionaries(WORDS, NUMBERS),
    health=st.lists(HEALTH),
    check_files=st.lists(WORDS).map(tuple),
    pyspy=st.none() | WORDS,
    deadline_s=st.floats(0, 1e6),
)


@given(ASKS)
def test_a_question_means_the_same_on_both_sides(ask: Ask) -> None:
    assert wire.ask(json.loads(codec.encode(ask))) == codec.decode(codec.encode(ask), Ask) == ask


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {},
        {"id": "1", "probes": []},
        {"id": 1, "probes": [], "health": [{"pid": 1}]},
        {"id": 1, "probes": [], "pids": "x"},
    ],
)
def test_what_is_no_question_is_a_value_error(plain: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wire.ask(plain)


def test_unknown_fields_of_a_newer_caller_are_dropped() -> None:
    assert wire.ask({"id": 1, "probes": ["scan"], "later": True}) == Ask(1, ("scan",))


def test_threads_and_processes_survive_the_way_to_a_child_and_back() -> None:
    thread = Thread(5, "S", args=(1, 2**64 - 1), poll=(3,), futex=FutexWait(8, "mutex", 2, 6))
    assert wire.thread(json.loads(json.dumps(to_plain(thread)))) == thread
    process = Process(
        5,
        1,
        2.5,
        "S",
        "x",
        cmdline=("a", "b"),
        nspid=(3,),
        io=Io(1, 2, 3, 4, 5, 6),
        fds={4: Fd(4, "epoll", "t", watched=(5,))},
    )
    assert wire.process(json.loads(json.dumps(to_plain(process)))) == process


def test_the_bundle_holds_the_agent_and_nothing_else_and_is_the_same_each_time() -> None:
    raw = bundle.build()
    assert raw == bundle.build()
    names = zipfile.ZipFile(io.BytesIO(raw)).namelist()
    assert names == sorted(names)
    assert {name.split("/")[1] for name in names} == {"__init__.py", *bundle.PARTS}
    assert "__main__.py" in zipfile.ZipFile(io.BytesIO(bundle.dump())).namelist()


def test_the_first_stage_passes_through_a_shell_in_single_quotes() -> None:
    assert "'" not in bootstrap.STAGE


def test_no_module_of_the_agent_uses_what_the_oldest_python_lacks() -> None:
    """Python 3.8 subscribes no builtin class and has no `|` of classes: an annotation that is evaluated has neither."""
    for name, source in bundle.sources().items():
        if b"from __future__ import annotations" not in source:
            assert not _newer(ast.parse(source)), name


def test_an_annotation_that_the_oldest_python_lacks_is_found() -> None:
    for line in ("a: list[int]", "a: int | None", "def f(a: dict[str, int]): ...", "def f() -> tuple[int, ...]: ..."):
        assert _newer(ast.parse(line)), line
    assert not _newer(ast.parse("def f(a: Optional[Dict[str, int]] = x | y) -> None: ..."))


def _newer(tree: ast.AST) -> list[int]:
    """Lines with annotations that Python 3.8 cannot evaluate."""
    kinds = (ast.AnnAssign, ast.arg, ast.FunctionDef)
    told = [one.returns if isinstance(one, ast.FunctionDef) else one.annotation
            for one in ast.walk(tree) if isinstance(one, kinds)]  # fmt: skip
    parts = [part for one in told if one is not None for part in ast.walk(one)]
    return [
        part.lineno
        for part in parts
        if isinstance(part, ast.BinOp)
        or (isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id in dir(builtins))
    ]


def test_descendants_end_also_on_a_loop() -> None:
    assert tick.descendants({2: 1, 3: 2, 4: 9, 5: 5}, (1, 7)) == {1, 2, 3, 7}
    assert tick.descendants({2: 3, 3: 2}, (2,)) == {2, 3}


def test_parts_of_an_answer_build_one_process() -> None:
    plain: dict[str, object] = {"pid": 1}
    previous = {"11": {"tid": 11, "state": "S"}, "12": {"tid": 12}}
    look.merge(plain, {"step": "state", "process": {"uid": 5}}, previous)
    look.merge(plain, {"step": "table", "process": {"threads": {"9": {"tid": 9}}, "same": [11]}}, previous)
    look.merge(
        plain, {"step": "waits", "process": {"waits": {"11": {"deadline": 2.0}, "77": {"deadline": 1.0}}}}, previous
    )
    threads = {"9": {"tid": 9}, "11": {"tid": 11, "state": "S", "deadline": 2.0}}
    assert plain == {"pid": 1, "uid": 5, "threads": threads}
    assert previous["11"] == {"tid": 11, "state": "S"}  # a table that may be kept elsewhere is not written to


def test_the_first_step_without_an_answer_is_where_a_child_got_stuck() -> None:
    steps = ["state", "table", "waits", "words"]
    assert look.missed(steps, [{"step": "state"}, {"step": "table"}]) == ["waits", "words"]
    assert look.missed(steps, [{"step": "state", "process": None}]) == []
