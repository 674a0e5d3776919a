"""The command that starts a shell on a host, as an argument list: ssh, what `--via` puts in its place or behind it, sudo.

The one string that a shell reads is the one that ssh itself imposes on the far side.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ..model.frozen import dataclass

PLACE = "{host}"
# The user's own configuration decides on everything else: identities, ports, jumps, masters, host keys.
_SSH = (
    "-T",  # a terminal would change bytes
    "-oBatchMode=yes",  # nothing prompts
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",  # forwardings of the user's other session hold their ports
    "-oRemoteCommand=none",
)
_SHELL = ("sh",)
_SUDO = ("sudo", "-n", "--")


class BadRoad(ValueError):
    """`--via` is no command."""


@dataclass(frozen=True)
class Road:
    """How to get to one host: a command whose stdin and stdout are those of a POSIX shell there."""

    host: str  # as the user named it
    command: tuple[str, ...]

    @property
    def program(self) -> str:
        """What runs on this machine, as messages name it."""
        return self.command[0].rpartition("/")[2]


@dataclass(frozen=True)
class Way:
    """What the user said about the way to the hosts."""

    via: str = ""  # a command; with `{host}` in it, it takes ssh's place, without it runs behind ssh
    sudo: bool = False
    connect_s: float | None = None  # for the connection; None: 10 s, 4 s where there are several hosts


def roads(hosts: Sequence[str], way: Way) -> list[Road]:
    """A road to each host. Raises BadRoad."""
    connect_s = way.connect_s or (4 if len(hosts) > 1 else 10)
    return [Road(host, _command(host, way, max(1, round(connect_s)))) for host in hosts]


def road_here(name: str, way: Way) -> Road:
    """The road into what `--via` or `--sudo` opens on this machine: a container, a namespace, another user. Raises BadRoad."""
    words = _words(way.via)
    if any(PLACE in word for word in words):
        raise BadRoad("--via has {host} in it, and no host was named")
    return Road(name, (*_sudo(way), *words, *_SHELL))


def _command(host: str, way: Way, connect_s: int) -> tuple[str, ...]:
    words = _words(way.via)
    if any(PLACE in word for word in words):
        return (*(word.replace(PLACE, host) for word in words), *_sudo(way), *_SHELL)
    far = shlex.join([*_sudo(way), *words, *_SHELL])
    return ("ssh", *_SSH, f"-oConnectTimeout={connect_s}", "--", host, far)


def _words(via: str) -> list[str]:
    try:
        words = shlex.split(via)
    except ValueError as error:
        raise BadRoad(f"--via {via!r} is no command: {error}") from None
    if via and not words:
        raise BadRoad("--via is empty")
    return words


def _sudo(way: Way) -> tuple[str, ...]:
    return _SUDO if way.sudo else ()
