"""End a launch that hangs, when the user asked for it: every member by number and start time, nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from ..model.launch import Launch, Member
from ..probes import processes

_ASK_S = 10.0  # between SIGTERM and SIGKILL
_KILL_S = 5.0  # for the kernel to end what was killed


def end_launch(launch: Launch | None) -> list[int]:
    """SIGTERM to the root, SIGKILL after ten seconds to every member that is left. Returns who would not end."""
    if launch is None:
        return []
    root = launch.members.get(launch.root)
    if root is not None and alive(root):
        _send(root, signal.SIGTERM)
    _wait(launch, _ASK_S)
    for member in launch.members.values():
        _send(member, signal.SIGKILL)
    _wait(launch, _KILL_S)
    return sorted(one.pid for one in launch.members.values() if alive(one))


def alive(member: Member) -> bool:
    """Whether this very process is there and is no zombie."""
    stat = processes.stat_of("/proc", member.pid)
    return stat is not None and stat.start == member.start and stat.state not in "ZX"


def _wait(launch: Launch, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(alive(one) for one in launch.members.values()):
        time.sleep(0.1)


def _send(member: Member, number: int) -> None:
    """A pidfd is opened before the start time is compared, so that the signal can reach no other process."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(member.pid)
        try:
            if alive(member):
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
