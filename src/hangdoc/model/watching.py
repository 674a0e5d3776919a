"""What `watch` says while it goes on: events as they happen, and the moment as a screen shows it. Standard library only."""

from dataclasses import field
from typing import Any, Dict, List, Literal, Optional

from .frozen import dataclass
from .report import Report
from .words import Phase

# launch: what is watched was recognised · member: one appeared, changed its title or ended · phase: the launch got
# there · verdict: another one than before · retracted: an earlier verdict is taken back · restart: a new launch in place
# of the old one · host: one dropped out or came back
# line: a line of the command's output · child: the command started, got a signal, ended
EventKind = Literal["launch", "member", "phase", "verdict", "retracted", "restart", "host", "line", "child"]


@dataclass(frozen=True)
class Event:
    """One thing that happened. `data` holds plain JSON values."""

    event: EventKind
    at: float  # wall clock
    text: str  # for people
    data: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseStep:
    """One phase of the start: behind it, in it, or to come."""

    id: Phase
    state: Literal["done", "now", "next"]
    took_s: Optional[float] = None  # of a phase that is done; of the present one, how long already
    expected_s: Optional[float] = None  # after which it is overdue


@dataclass(frozen=True)
class Moment:
    """What a live screen shows."""

    report: Report
    phases: List[PhaseStep] = field(default_factory=list)
    lines: List[str] = field(default_factory=list)  # the newest of the output, oldest first
    events: List[str] = field(default_factory=list)  # the newest, oldest first
    why_not_more: Optional[str] = None  # why a suspect is not called a hang, and when it would be
    note: Optional[str] = None  # what is watched: the command, its log
