"""Several cases, each of one host, are judged as one launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangdoc.cli import exits
from hangdoc.cli.replay import report_of_cases
from hangdoc.model.sample import Sample
from hangdoc.session.casefile import CASE_SCHEMA, CaseWriter, Header

from .two_hosts import Pair
from .world import BARRIER, HOOK, LOAD, TP0, TP1, waiting


def case(path: Path, host: str, samples: list[Sample]) -> Path:
    writer = CaseWriter(path, Header(CASE_SCHEMA, "0", samples[0].at, 0, host))
    for sample in samples:
        writer.add(sample)
    writer.close()
    return path


def test_two_cases_of_two_hosts_are_one_launch(tmp_path: Path) -> None:
    pair = Pair()
    pair.nodes[0].bend(TP0, BARRIER)
    pair.nodes[1].bend(TP1, (HOOK, *LOAD), thread=waiting(TP1, syscall=202, wchan="futex_wait"))
    paths = [
        case(tmp_path / f"{place}.case", "box", [pair.nodes[place].sample(float(at)) for at in range(17)])
        for place in (0, 1)
    ]
    report = report_of_cases(paths)
    assert report.verdict == "suspect"
    assert [(one.host, one.rank) for one in report.culprits] == [("box (1.case)", "TP1")]
    with pytest.raises(exits.Stop, match="neither a PID nor a file"):
        report_of_cases([tmp_path / "none.case"])


def test_a_case_of_several_hosts_is_not_joined_again(tmp_path: Path) -> None:
    pair = Pair()
    both = case(tmp_path / "both.case", "gpu01", [pair.sample(0.0)])
    with pytest.raises(exits.Stop, match="several hosts already"):
        report_of_cases([both, both])
