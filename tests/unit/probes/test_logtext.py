"""Log bytes to text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hangdoc.probes import logfile, logtext

SIZES = st.integers(0, 10_000)


@given(SIZES, SIZES, st.integers(0, 500), st.integers(1, 500))
def test_plan_is_ordered_within_the_file_and_reaches_its_end(start: int, size: int, head: int, tail: int) -> None:
    pieces = logtext.plan(start, size, head, tail)
    assert sum(length for _, length in pieces) == min(max(0, size - start), head + tail)
    at = start
    for offset, length in pieces:
        assert offset >= at
        assert length > 0
        at = offset + length
    assert not pieces or at == size


@given(st.text(), st.integers(0, 400))
def test_a_character_cut_in_two_is_whole_in_the_next_piece(text: str, at: int) -> None:
    data = text.encode("utf-8", "surrogatepass") if text.isascii() else text.encode("utf-8", "replace")
    first = logtext.whole_characters(data[:at])
    assert data[: len(first)] == first
    assert first.decode() + data[len(first) :].decode() == data.decode()


@given(st.binary(max_size=300))
def test_any_bytes_decode_and_keep_no_nul(data: bytes) -> None:
    assert "\0" not in logtext.decode(data)
    assert len(data) - len(logtext.whole_characters(data)) <= 3


def test_hole_of_a_truncation_is_one_mark() -> None:
    assert logtext.decode(bytes(1 << 20) + b"on\n\xff") == "\\x00on\n\\xff"


def test_cut_at_line_ends() -> None:
    assert logtext.cut(b"half\nwhole\nha", from_line=True, to_line=True) == (5, b"whole\n")
    assert logtext.cut(b"no line end", from_line=True, to_line=True) == (0, b"no line end")
    assert logtext.cut(b"a\nb", from_line=False, to_line=False) == (0, b"a\nb")


def test_clip_keeps_both_ends_of_a_long_line() -> None:
    clipped = logtext.clip("short\n" + "a" * 50 + "z" * 50 + "\nend", limit=20)
    assert clipped == "short\n" + "a" * 10 + "…(80 characters left out)…" + "z" * 10 + "\nend"


def test_clip_knows_progress_bars() -> None:
    bar = "\r".join(f"{number}%" for number in range(100))
    assert logtext.clip(bar, limit=20) == bar


def test_a_line_that_is_being_written_waits() -> None:
    assert logtext.finished(b"one\ntok") == b"one\n"
    assert logtext.finished(b"10%\r20%\r3") == b"10%\r20%\r"
    assert logtext.finished(b"tok") == b""
    assert logtext.finished(b"x" * (logtext.LINE_LIMIT + 1)) == b"x" * (logtext.LINE_LIMIT + 1)


def test_cri_records_are_joined() -> None:
    raw = (
        "2026-01-01T00:00:00.000000001Z stdout F Loading weights\n"
        "2026-01-01T00:00:00.000000002Z stdout P half a \n"
        "2026-01-01T00:00:00.000000003+00:00 stderr F between\n"
        "2026-01-01T00:00:00.000000004Z stdout F line\n"
        "2026-01-01T00:00:00.000000005Z stdout F \n"
    )
    assert logtext.unwrap(raw) == "Loading weights\nbetween\nhalf a line\n\n"


def test_json_file_records_are_joined() -> None:
    rows = [{"log": "one\n", "stream": "stdout"}, {"log": "ha", "stream": "stderr"}, {"log": 'lf "q"\n', "stream": "x"}]
    raw = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    assert logtext.unwrap(raw + '{"log":broken\n') == 'one\nhalf "q"\n{"log":broken\n'


def test_what_only_looks_like_a_record_stays() -> None:
    for text in ("", "2026-01-01T00:00:00Z INFO started\n", '{"log": 1}\nplain\n', "plain\n"):
        assert logtext.unwrap(text) == text


def test_start_of() -> None:
    key = logfile.offset_key("/a", 7)
    assert logfile.start_of("/a", 7, 100, {}) == (None, "")
    assert logfile.start_of("/a", 7, 100, {"/a": 40}) == (40, "")
    assert logfile.start_of("/a", 7, 100, {key: 40}) == (40, "")
    assert logfile.start_of("/a", 7, 10, {"/a": 40}) == (None, "truncated")
    assert logfile.start_of("/a", 8, 100, {key: 40}) == (None, "rotated")
    assert logfile.start_of("/a", 7, 100, {"/ab#7": 1, "/b": 3}) == (None, "")
