"""A launch as it was recognised: pure description, made by `engines`, read by `analysis`. Standard library only."""

from dataclasses import field
from typing import Dict, Optional, Tuple

from .frozen import dataclass
from .places import own
from .words import NEVER_NEEDED, Role


@dataclass(frozen=True)
class Rank:
    """Place of a worker or scheduler. `None` where that dimension was not seen; `world` is the global rank."""

    dp: Optional[int] = None
    pp: Optional[int] = None
    tp: Optional[int] = None
    ep: Optional[int] = None
    world: Optional[int] = None

    def __str__(self) -> str:
        known = {name: value for name, value in vars(self).items() if name != "world" and value is not None}
        parts = [f"{name.upper()}{value}" for name, value in known.items()]
        return " ".join(parts) or (f"rank {self.world}" if self.world is not None else "")


@dataclass(frozen=True)
class Member:
    """One process of a launch."""

    pid: int
    start: float
    role: Role
    rank: Rank = Rank()
    title: str = ""  # what people see in ps, bounded
    ppid: int = 0
    nspid: Optional[int] = None  # its number in its own pid namespace, where that differs
    host: str = ""  # whose it is, where a look is at several hosts

    @property
    def where(self) -> str:
        """Its number as its host knows it: "pid 4711", "pid 4711 on gpu02" where there are several hosts."""
        return f"pid {own(self.pid)}" + (f" on {self.host}" if self.host else "")

    @property
    def who(self) -> str:
        """Label and number, as sentences name it: "scheduler TP1 (pid 4711)"."""
        return f"{self.label} ({self.where})"

    @property
    def needed(self) -> bool:
        """Whether the launch cannot become ready without it."""
        return self.role not in NEVER_NEEDED

    @property
    def label(self) -> str:
        """Role with rank, as messages name it: "scheduler TP1", "launcher"."""
        return f"{self.role} {self.rank}".strip()


@dataclass(frozen=True)
class Node:
    """The part of a launch over several nodes that one command started."""

    root: int
    host: str = ""
    rank: Optional[int] = None  # node rank; None where nothing tells
    address: str = ""  # where it was told that the nodes meet: "10.0.0.1:5000"
    head: bool = False  # it serves HTTP


@dataclass(frozen=True)
class Launch:
    """One start of an inference server, on one or on many hosts."""

    host: str
    root: int
    engine: str  # profile id: vllm | sglang | unknown
    members: Dict[int, Member] = field(default_factory=dict)
    args: Dict[str, str] = field(default_factory=dict)  # long option without dashes -> value ("" for a flag)
    version: Optional[str] = None
    port: Optional[int] = None
    head: bool = True  # the node that serves HTTP (node rank 0) is among those that were seen
    wrappers: Tuple[int, ...] = ()  # bash, tini, uv … above the root
    nodes: Tuple[Node, ...] = ()  # of a launch that was told to span several nodes: those seen, the head first
    nodes_wanted: int = 1  # how many there should be

    @property
    def needed(self) -> Tuple[Member, ...]:
        """Members without which the launch cannot become ready, by pid."""
        return tuple(m for _, m in sorted(self.members.items()) if m.needed)
