"""The case file: differences, replay, and every way in which a file can be none."""

from __future__ import annotations

import json
import os
import resource
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model.sample import Process, Sample, Thread
from hangdoc.session.casefile import CASE_SCHEMA, CaseError, CaseWriter, Header, difference, patched, read

JSON_ = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
DOCUMENT = st.dictionaries(st.text(max_size=3), JSON_, max_size=5)


@given(DOCUMENT, DOCUMENT)
def test_a_difference_turns_the_old_into_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Applying the difference gives the new document, whatever both are."""
    assert patched(old, difference(old, new)) == new


def sample(at: float, *states: str) -> Sample:
    """A sample with one process per state."""
    processes = {
        pid: Process(pid, 1, 5.0, state, "python", threads={pid: Thread(pid, state)})
        for pid, state in enumerate(states, 100)
    }
    return Sample("box", at, at, at, ("processes",), processes)


def written(path: Path, *samples: Sample) -> Path:
    """A case with these samples."""
    writer = CaseWriter(path, Header(CASE_SCHEMA, "0", 1.0, 100, "box"))
    for one in samples:
        writer.add(one)
    writer.close()
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Samples come back equal, also where a process appeared, changed or vanished between them."""
    samples = [sample(1.0, "R", "S"), sample(2.0, "S", "S", "D"), sample(3.0, "S")]
    header, found = read(written(tmp_path / "a.case", *samples))
    assert list(found) == samples
    assert header.root == 100


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """Mode 0600, whatever the umask; an existing file is never overwritten."""
    old = os.umask(0)
    try:
        path = written(tmp_path / "a.case", sample(1.0, "R"))
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        written(path, sample(1.0, "R"))


def test_half_a_last_line_is_tolerated(tmp_path: Path) -> None:
    """A crash or a full disk in the middle of a line costs only that line."""
    path = written(tmp_path / "a.case", sample(1.0, "R"), sample(2.0, "S"))
    path.write_bytes(path.read_bytes()[:-7])
    assert [one.at for one in read(path)[1]] == [1.0]


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    """What stands in the middle was not cut off by a crash."""
    path = written(tmp_path / "a.case", sample(1.0, "R"), sample(2.0, "S"))
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], b'{"sample": 7}', lines[2]]) + b"\n")
    with pytest.raises(CaseError, match="line 2"):
        list(read(path)[1])


def test_records_and_fields_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    """Unknown records and unknown fields do not stop an older reader."""
    path = written(tmp_path / "a.case", sample(1.0, "R"))
    lines = path.read_text().splitlines()
    record = json.loads(lines[1])
    record["sample"]["new-field"] = {"x": 1}
    path.write_text("\n".join([lines[0], '{"note": "hello"}', json.dumps(record)]) + "\n")
    assert [one.at for one in read(path)[1]] == [1.0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no hangdoc case"),
        (b"\x7fELF\x00\x01\n", "no hangdoc case"),
        (b'{"schema": "other/1", "hangdoc": "0", "at": 1, "root": 1}\n', "schema 'other/1'"),
        (b'{"schema": "hangdoc.case/9", "hangdoc": "9", "at": 1, "root": 1}\n', "newer hangdoc"),
        (b'{"schema": "hangdoc.case/1"}\n', "not a header"),
    ],
)
def test_a_foreign_file_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    """Each kind of foreign file says what is wrong with it."""
    path = tmp_path / "x.case"
    path.write_bytes(content)
    with pytest.raises(CaseError, match=words):
        read(path)


def test_deep_nesting_is_an_error_not_a_crash(tmp_path: Path) -> None:
    """A hostile case may not exhaust the stack."""
    path = written(tmp_path / "a.case", sample(1.0, "R"))
    deep = b'{"sample": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    path.write_bytes(path.read_bytes() + deep + b'{"note": 1}\n')
    with pytest.raises(CaseError):
        list(read(path)[1])


def test_a_deep_first_line_is_no_case(tmp_path: Path) -> None:
    """Nor may its header."""
    path = tmp_path / "x.case"
    path.write_bytes(b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n")
    with pytest.raises(CaseError, match="no hangdoc case"):
        read(path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    """Opened plainly, a named pipe would block for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaseError):
        read(tmp_path / "pipe")


def test_a_full_disk_is_said_once_and_leaves_what_was_written(tmp_path: Path) -> None:
    """Closing must not try again what the disk refused; the samples before stay readable."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = CaseWriter(tmp_path / "a.case", Header(CASE_SCHEMA, "0", 1.0, 1))
    writer.add(sample(1.0, "R"))
    room = (tmp_path / "a.case").stat().st_size + 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            writer.add(sample(2.0, "S", "S", "S"))
        writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one.at for one in read(tmp_path / "a.case")[1]] == [1.0]
