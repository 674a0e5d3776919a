"""Several hosts as one number space: process, thread, inode and namespace numbers carry the place of their host.

A union of samples holds the numbers of host k as `k << 22 | number` (pid_max is at most 2^22, include/linux/threads.h)
and `k << 64 | number` (inodes, namespaces, eventfds). HostPlace 0 is unchanged, so that a single host costs nothing.
Standard library only and Python 3.8.
"""

from typing import Optional, Sequence

from .frozen import dataclass
from .words import UnseenReason

_PID_BITS = 22
_INODE_BITS = 64
REACH = "reach"  # what an `Unseen` calls its probe when a whole host could not be reached


@dataclass(frozen=True)
class HostPlace:
    """One host of a union of samples; its number is its index."""

    host: str  # as the user named it
    lost: Optional[UnseenReason] = None  # why nothing of it is in this sample
    detail: str = ""  # what was said then
    asked: bool = True  # False: this question was not for it, which tells nothing about it
    wall_ahead: float = 0.0  # seconds that its wall clock is ahead of that of the sample

    @property
    def silent(self) -> bool:
        """Whether that something of it is missing from the sample tells nothing."""
        return self.lost is not None or not self.asked


def packed(place: int, number: int) -> int:
    """A process or thread id of a host as it stands in a union; 0 and less are no ids and stay."""
    return number | place << _PID_BITS if number > 0 else number


def place_of(number: int) -> int:
    """The place of the host that a process or thread id belongs to."""
    return max(number, 0) >> _PID_BITS


def own(number: int) -> int:
    """The process or thread id as its host knows it."""
    return number & (1 << _PID_BITS) - 1 if number > 0 else number


def packed_inode(place: int, number: int) -> int:
    """An inode, namespace or eventfd number of a host as it stands in a union."""
    return number | place << _INODE_BITS if number > 0 else number


def place_of_inode(number: int) -> int:
    """The place of the host that an inode belongs to."""
    return max(number, 0) >> _INODE_BITS


def own_inode(number: int) -> int:
    """The inode as its host knows it."""
    return number & (1 << _INODE_BITS) - 1 if number > 0 else number


def marked(places: Sequence[HostPlace], place: int, path: str) -> str:
    """A path of a host as it stands in a union: `host:path` for all but the first."""
    return f"{places[place].host}:{path}" if place else path


def unmarked(hosts: Sequence[str], path: str) -> "tuple[int, str]":
    """The place and the path on its host of what `marked` gave, or a user wrote; a plain path is the first host's."""
    for place, host in enumerate(hosts):
        if path.startswith(f"{host}:"):
            return place, path[len(host) + 1 :]
    return 0, path
