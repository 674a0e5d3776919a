"""Command lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.engines.argv import Program, arguments, number, program

ALIASES = {"tp": "tensor-parallel-size"}


@pytest.mark.parametrize(
    ("cmdline", "found"),
    [
        (
            ["python", "-m", "sglang.launch_server", "--tp", "2"],
            Program("python", ("-m sglang.launch_server", "--tp", "2")),
        ),
        (["/opt/v/bin/python3.11", "-u", "-X", "dev", "-m", "a.b", "x"], Program("python", ("-m a.b", "x"))),
        (["python", "-um", "a.b", "x"], Program("python", ("-m a.b", "x"))),
        (["/usr/bin/python3", "/usr/bin/vllm", "serve"], Program("python", ("/usr/bin/vllm", "serve"))),
        (["python", "/my dir/bin/vllm", "serve"], Program("python", ("vllm", "serve"))),
        (["python", "-B", "-c", "import x", "a"], Program("python", ("-c import x", "a"))),
        (["python"], Program("python")),
        (["bash", "-c", "vllm serve m"], Program("other", ("bash", "-c", "vllm serve m"))),
        (["sglang::scheduler_TP0"], Program("other", ("sglang::scheduler_TP0",))),
        ([], Program("none")),
        (None, Program("none")),
    ],
)
def test_program(cmdline: list[str] | None, found: Program) -> None:
    assert program(cmdline) == found


@pytest.mark.parametrize("words", [["--tp", "2"], ["--tp=2"], ["-tp", "2"], ["-tp=2"], ["--tensor_parallel_size", "2"]])
def test_every_spelling_is_one_argument(words: list[str]) -> None:
    assert arguments(words, ALIASES) == {"tensor-parallel-size": "2"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["serve", "m", "--port", "1"], {"": "serve m", "port": "1"}),
        (["serve", "--enforce-eager", "m"], {"": "serve m", "enforce-eager": ""}),
        (["--enforce-eager", "--port", "1"], {"enforce-eager": "", "port": "1"}),
        (["--seed", "-1"], {"seed": "-1"}),
        (["--port", "1", "--port", "2"], {"port": "2"}),
        (["--names", "a", "b", "--x"], {"names": "a b", "x": ""}),
        (
            ["--tp.level", "3", "--json", '{"a": "--tp 3"}'],
            {"tensor-parallel-size.level": "3", "json": '{"a": "--tp 3"}'},
        ),
        (["--x=a=b"], {"x": "a=b"}),
    ],
)
def test_arguments(words: list[str], found: dict[str, str]) -> None:
    assert arguments(words, ALIASES, ("enforce-eager",)) == found


@given(st.lists(st.text(max_size=12), max_size=12))
def test_no_argument_list_is_too_strange(words: list[str]) -> None:
    found = arguments(words, ALIASES, ("a",))
    assert all(isinstance(value, str) for value in found.values())
    program(words)


@given(st.dictionaries(st.from_regex(r"[a-z]{2,6}(-[a-z]{2,6})?", fullmatch=True), st.integers(0, 99), max_size=6))
def test_what_was_written_is_read(options: dict[str, int]) -> None:
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    assert arguments(words, {}) == {name: str(value) for name, value in options.items()}


def test_number_falls_back_on_what_is_none() -> None:
    assert [number({"a": text}, "a", 7) for text in ("3", "x", "-3", "²", "", "9" * 5000)] == [3, 7, 7, 7, 7, 7]
    assert number({}, "a") == 1
