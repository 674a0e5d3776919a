"""A saved case to its report: the same road as a live look, without the clock."""

from __future__ import annotations

import itertools
from pathlib import Path

from .. import __version__
from ..analysis.diagnosis import Diagnosis, Reasons
from ..model.report import Report
from ..session import casefile, target
from ..session.comparing import Baselines
from . import exits


def report_of_case(path: Path, baselines: Baselines | None = None, reasons: Reasons | None = None) -> Report:
    """The report of a case file. Raises Stop with what is wrong with it."""
    try:
        header, samples = casefile.read(path)
        first = next(samples, None)
        root = header.root or (target.only(first).root if first is not None else 0)
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
