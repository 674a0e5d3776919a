"""What judging needs of a launch, and the picture of one member that it makes."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import msgspec

from ..engines.meanings import Meaning
from ..engines.profile import PhaseSpec, Profile
from ..model.launch import Launch, Member
from ..model.sample import Frame, Socket, Stack
from ..model.words import ROLES, Mechanism, Phase
from . import floors
from .history import History
from .loading import Loads
from .logbook import Logbook, Written
from .nearest import Beside


class Picture(msgspec.Struct, frozen=True):
    """What one needed member is doing."""

    member: Member
    phase: Phase | None
    mechanism: Mechanism
    detail: str
    moving: bool | None  # progress or work within the window; None when too little was seen to say
    quiet_s: float  # how long nothing of it has moved, at most the window
    since_s: float | None = None  # how long the thread has been where it is, at least
    object: str | None = None
    tid: int | None = None
    nstid: int | None = None
    stack: Stack | None = None
    means: Meaning = Meaning()
    waits_for: str | None = None  # as in FrameRule: a role, "ranks", "threads", "children", "clients", "object"
    idle: bool = False  # waits by design for something to do
    victim: bool = False  # it waits for another needed member, so it is not where the chain ends
    definite: bool = False  # a fact that no waiting cures, not yet said to be stable
    channels: tuple[str, ...] = ()  # what moved
    lost: bool = False  # its host cannot be reached any more

    @property
    def frame(self) -> Frame | None:
        """The innermost Python frame of its stack."""
        return self.stack.frames[0] if self.stack and self.stack.frames else None

    @property
    def shape(self) -> tuple[Hashable, ...]:
        """What members that do the same have in common: role, phase, mechanism and innermost function."""
        frame = self.frame
        return (self.member.role, self.phase, self.mechanism, frame and (frame.file, frame.function))

    @property
    def stuck(self) -> bool:
        """Whether a fact that no waiting cures has held for long enough."""
        return self.definite and (self.since_s or 0) >= floors.STABLE_S

    @property
    def judged_s(self) -> float:
        """Seconds by which its counters are judged; of one that is stuck, what it did before that tells nothing."""
        return min(self.since_s or 0, floors.STILL_S) if self.stuck else floors.STILL_S

    @property
    def for_members(self) -> bool:
        """Whether its frames say that it waits for other members."""
        return self.waits_for == "ranks" or self.waits_for in ROLES


class View(msgspec.Struct, frozen=True, dict=True):
    """All that judging a member needs."""

    history: History
    logbook: Logbook
    profile: Profile
    launch: Launch
    order: tuple[PhaseSpec, ...]  # the phases that this launch goes through
    arch: str
    beside: Beside | None = None  # the good starts that this one is held against
    unmatched: str = ""  # why there are none
    loads: Loads = msgspec.field(default_factory=Loads)  # weights that ranks are loading

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Ids of these phases, first to last."""
        return tuple(spec.id for spec in self.order)

    def written(self, member: Member) -> Written:
        """What this member wrote, empty when nothing is known to be its own."""
        return self.logbook.by_member.get(member.pid, Written())

    @cached_property
    def sockets(self) -> dict[int, Socket]:
        """Sockets by inode."""
        return {row.inode: row for row in self.history.sockets if row.inode}
