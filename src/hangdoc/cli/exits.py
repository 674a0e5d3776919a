"""Exit statuses and the one kind of error that a person sees. The statuses are a public contract."""

from __future__ import annotations

from typing import Literal

from ..model.words import Verdict

FailOn = Literal["slow", "suspect"]

OK = 0  # looked well enough, and nothing is stuck
HUNG = 1  # or what --fail-on names
USAGE = 2
UNDECIDED = 3  # undecided or suspect
UNREACHABLE = 4  # a target could not be reached or read, and that leaves the verdict open
CRASHED = 5
INTERNAL = 70  # a defect of hangdoc itself (EX_SOFTWARE of sysexits.h); Python's own 1 would read as "hung"
NOT_WRITTEN = 74  # the results could not be written to standard output (EX_IOERR)
INTERRUPTED = 130

_STATUS: dict[Verdict, int] = {
    "ready": OK,
    "progressing": OK,
    "slow": OK,
    "suspect": UNDECIDED,
    "hung": HUNG,
    "crashed": CRASHED,
    "undecided": UNDECIDED,
}
# --fail-on names the mildest verdict that counts as a failure; hung always does.
_FAILS: dict[FailOn | None, frozenset[Verdict]] = {
    None: frozenset(),
    "suspect": frozenset({"suspect"}),
    "slow": frozenset({"slow", "suspect"}),
}


class Stop(Exception):
    """Ends a command with one message, a hint what to do about it, and an exit status."""

    def __init__(self, message: str, hint: str = "", status: int = USAGE) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


def exit_status(verdict: Verdict, fail_on: FailOn | None = None, *, lost_target: bool = False) -> int:
    """Exit status of a diagnosis. `lost_target`: a target could not be reached or read."""
    if verdict in _FAILS[fail_on]:
        return HUNG
    status = _STATUS[verdict]
    return UNREACHABLE if status == UNDECIDED and lost_target else status
