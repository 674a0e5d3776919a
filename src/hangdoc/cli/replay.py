"""A saved case to its report: the same road as a live look, without the clock."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import __version__
from ..analysis.diagnosis import Diagnosis, Reasons
from ..hosts.union import in_step
from ..model.report import Report
from ..model.sample import Sample
from ..session import casefile, target
from ..session.comparing import Baselines
from . import exits


def report_of_case(path: Path, baselines: Baselines | None = None, reasons: Reasons | None = None) -> Report:
    """The report of a case file. Raises Stop with what is wrong with it."""
    return report_of_cases([path], baselines, reasons)


def report_of_cases(
    paths: Sequence[Path], baselines: Baselines | None = None, reasons: Reasons | None = None
) -> Report:
    """The report of one case, or of several that were taken on the hosts of one launch. Raises Stop."""
    path = paths[0]
    try:
        if len(paths) == 1:
            header, samples = casefile.read(path)
            root = header.root
        else:
            root, samples = 0, _joined(paths)
        first = next(samples, None)
        root = root or (target.only(first).root if first is not None else 0)
        diagnosis = Diagnosis(root, reasons=reasons)
        for sample in itertools.chain([first] if first is not None else [], samples):
            diagnosis.add(sample)
    except target.NoLaunch as error:
        raise exits.Stop(f"{path}: {error}", error.hint) from None
    except FileNotFoundError:
        raise exits.Stop(
            f"{path} is neither a PID nor a file", "name a process of the launch, or a case saved with --save"
        ) from None
    except OSError as error:
        raise exits.Stop(f"{path} cannot be read: {error.strerror}", "", exits.UNREACHABLE) from None
    except casefile.CaseError as error:
        raise exits.Stop(str(error), "", exits.USAGE) from None
    if diagnosis.launch is None:
        raise exits.Stop(f"{path} holds no sample of a launch", "", exits.USAGE)
    if baselines is not None:
        baselines.attach(diagnosis)
    return diagnosis.report(__version__, mode="case")


def _joined(paths: Sequence[Path]) -> Iterator[Sample]:
    """Cases of single hosts as one; a host that two of them name is told apart by its file."""
    hosts: list[str] = []
    runs = []
    for path in paths:
        _, samples = casefile.read(path)
        first = next(samples, None)
        if first is None or first.places:
            raise exits.Stop(
                f"{path} holds {'nothing' if first is None else 'several hosts already'}",
                "several cases are joined when each is of one host",
            )
        hosts.append(first.host if first.host not in hosts else f"{first.host} ({path.name})")
        runs.append(itertools.chain([first], samples))
    return in_step(hosts, runs)
