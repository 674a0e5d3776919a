"""What an engine's launch looks like, as data. The YAML files in `data/` decode into these classes."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..model.words import Mechanism, Phase, Role

Evidence = Literal[
    "seen", "source", "published"
]  # seen in a real start here, read in the engine's source, or published


class Title(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process title (setproctitle) or, of a zombie, its name cut at 15. Groups tp pp dp ep world give the rank."""

    match: str
    role: Role
    phase: Phase | None = None  # who bears this title has got at least this far
    example: str = ""
    versions: str = ""  # ">=0.11,<0.19"; empty = all
    evidence: Evidence = "source"


class Prefix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an engine writes before a line. Named groups: pid, tp, pp, dp, ep, world; `role` of the writer."""

    match: str
    role: Role | None = None
    ranked: Role | None = None  # whose it is when it shows a rank, where `role` does not say
    example: str = ""
    evidence: Evidence = "source"


class PhaseSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One phase of this engine's start, in order."""

    id: Phase
    ceiling_s: float  # without a baseline, still in this phase after so long counts as overdue
    roles: tuple[Role, ...]  # who goes through it
    unless: tuple[str, ...] = ()  # arguments that remove it: "enforce-eager"; "device=cpu" for a value
    when: tuple[str, ...] = ()  # it exists only with one of these arguments
    next_line: str = ""  # what a good start prints at its end, for people


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log line after which its writer is in `phase`."""

    match: str
    phase: Phase
    # Only from these writers, where the prefix tells; where it does not, the first of them that the launch has.
    roles: tuple[Role, ...] = ()
    every_rank: bool = False  # printed by every rank: a rank that lacks it is behind
    versions: str = ""
    example: str = ""  # a real line, message without prefix
    evidence: Evidence = "source"


class FrameRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What it means that a Python frame is on a stack. The innermost frame with an answer wins, per question."""

    # Exact name, or a trailing part after "."; "*" is any. Python <= 3.10 shows "Scheduler.__init__" as "__init__".
    function: str
    file: str = ""  # suffix of the path; one that ends with "/" means any file below such a folder; empty = any
    under: tuple[str, ...] = ()  # only when one of these functions is further out on the stack
    near: bool = (
        False  # and only when that one is at most three frames further out: it waits itself, not what it called
    )
    leaf: bool = False  # only as the innermost frame
    weak: bool = False  # plumbing: a firm mechanism a few frames further out says more
    phase: Phase | None = None
    mechanism: Mechanism | None = None
    # Who ends this wait: a Role, "ranks" (the other members of its group), "clients", "threads" (of this process),
    # "children", "object" (a file, a host, a device).
    waits_for: str | None = None
    idle: bool = False  # waits like this by design when it has nothing to do
    evidence: Evidence = "source"


class Meeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments that say where the nodes of a launch meet, how many there are, and which this one is."""

    address: str = ""  # "host:port" in one
    host: str = ""
    port: str = ""
    default_port: int = 0
    nodes: str = ""  # how many; without it, by `size` over `local`
    node: str = ""
    size: str = ""  # ranks of all nodes
    local: str = ""  # ranks of one node
    first: str = ""  # the first rank of this node
    evidence: Evidence = "source"


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One engine."""

    engine: str
    name: str  # as people write it
    packages: tuple[str, ...]  # distributions that carry it, the first one found gives the version
    roots: tuple[str, ...]  # regexes on the command line of the root process, joined by blanks
    default_port: int
    health: str
    titles: tuple[Title, ...]
    prefixes: tuple[Prefix, ...]
    phases: tuple[PhaseSpec, ...]
    marks: tuple[Mark, ...]
    frames: tuple[FrameRule, ...]
    aliases: dict[str, str] = {}  # argument aliases: "tp" -> "tensor-parallel-size"
    chatter: tuple[str, ...] = ()  # lines that only say "still waiting"
    fatal: tuple[str, ...] = ()  # lines that announce the end
    echoes: tuple[str, ...] = ()  # exceptions of one that is well about another that failed or ended
    cold: tuple[str, ...] = ()  # lines that tell of something compiled that a cache did not have
    warm: tuple[str, ...] = ()  # lines that tell of something taken from a cache of compiled things
    child_roles: dict[str, Role] = {}  # regex on command line of untitled descendants -> role
    untitled: dict[Role, Role] = {}  # role of parent -> role of an untitled Python child
    root_role: Role = "launcher"
    flags: tuple[str, ...] = ()  # arguments that take no value, as far as a value could be taken for one
    wrappers: tuple[str, ...] = ()  # programs that start others and wait for them
    meetings: tuple[Meeting, ...] = ()  # of a launch over several nodes
