"""`--redact`: nobody is named, and the case is judged as it was."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.cli.redacting import Redaction
from hangdoc.model.report import Report
from hangdoc.report.anonymise import Names
from hangdoc.session import casefile

CASES = Path(__file__).parents[2] / "data" / "cases"


def judged(path: Path) -> tuple[casefile.Header, Diagnosis]:
    header, samples = casefile.read(path)
    diagnosis = Diagnosis(header.root)
    for sample in samples:
        diagnosis.add(sample)
    return header, diagnosis


@pytest.mark.parametrize("name", ["sglang-two-nodes-locked", "sglang-two-nodes-no-route", "vllm-file-lock"])
def test_a_redacted_case_names_nobody_and_is_judged_as_before(name: str, tmp_path: Path) -> None:
    whole, clean = tmp_path / "whole.case", tmp_path / "clean.case"
    whole.write_bytes(gzip.decompress((CASES / f"{name}.case.gz").read_bytes()))
    _, before = judged(whole)
    _, samples = casefile.read(whole)
    first = next(samples)
    launch = before.launch
    assert launch is not None
    redaction = Redaction(wanted=True)
    case = redaction.case(clean, first, launch)
    _, samples = casefile.read(whole)
    for sample in samples:
        case.add(sample)
    case.close()
    assert clean.stat().st_mode & 0o777 == 0o600
    text = clean.read_text()
    for secret in ("gpu01", "gpu02", "10.77.0", "10.99.0", "/models", "/opt/sglang", "/opt/vllm", "/home/user"):
        assert secret not in text
    header, after = judged(clean)
    assert header.host in ("host-1", "host-2")

    def told(report: Report) -> list[object]:
        return [report.verdict, report.confidence, report.phase and report.phase.id] + [
            (one.role, one.rank, one.pid, one.mechanism, one.frame and one.frame.function) for one in report.culprits
        ]

    assert told(after.report("0")) == told(before.report("0"))
    shown = redaction.report(before.report("0"))  # what is printed has the same stand-ins as what was saved
    assert [one.host for one in shown.culprits] == [one.host for one in after.report("0").culprits]
    assert shown.redacted["hosts"] >= 1


def test_the_same_name_is_the_same_everywhere() -> None:
    names = Names(paths=True)
    names.add_hosts(["root@gpu02", "gpu01"])
    assert names.text("anna@gpu02: 10.1.2.3 -> gpu01:/data/m/w.bin") == "user@host-2: address-1 -> host-1:/path-1/w.bin"
    assert names.text("/data/m/x on gpu02, 10.1.2.3:80") == "/path-1/x on host-2, address-1:80"
    assert names.told() == {"hosts": 2, "addresses": 1, "paths": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/usr/lib/x.so and /proc/7/maps", "/usr/lib/x.so and /proc/7/maps"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("/srv/v/lib/python3.11/site-packages/sglang/a.py:7", "/path-1/lib/python3.11/site-packages/sglang/a.py:7"),
        ("python /srv/bin/vllm serve", "python /path-1/vllm serve"),
        ("1/2 shards, 3/4 done", "1/2 shards, 3/4 done"),
        ("--model=/srv/m/x", "--model=/path-1/x"),
    ],
)
def test_folders(text: str, told: str) -> None:
    assert Names(paths=True).text(text) == told


@given(st.text(max_size=200))
def test_what_was_redacted_stays_as_it_is(text: str) -> None:
    names = Names(paths=True)
    names.add_hosts(["gpu01"])
    once = names.text(text)
    assert names.text(once) == once
