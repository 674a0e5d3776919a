"""Options that several commands have, and what they mean. Imports nothing heavy."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from ..session.casefile import CaseWriter, Header
from . import exits


class Stacks(str, Enum):
    """Whether Python stacks are read."""

    auto = "auto"
    none = "none"


class FailOn(str, Enum):
    """The mildest verdict that ends with status 1."""

    slow = "slow"
    suspect = "suspect"


def open_case(path: Path, header: Header) -> CaseWriter:
    """A new case file. Raises Stop with what is wrong with the path."""
    try:
        return CaseWriter(path, header)
    except FileExistsError:
        raise exits.Stop(
            f"{path} exists already", "a case is never overwritten: choose another name", exits.USAGE
        ) from None
    except OSError as error:
        raise exits.Stop(f"{path} cannot be written: {error.strerror}", "", exits.USAGE) from None
