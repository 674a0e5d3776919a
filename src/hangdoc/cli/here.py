"""The channel to what a command line names: this machine, or hosts; what can go wrong becomes one message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ..hosts.channel import Channel, ChannelError
from ..session.target import NoLaunch
from . import exits
from .targets import Targets

_ROWS = 20  # lost hosts that are listed where there is no report


class Reaching(msgspec.Struct, frozen=True):
    """How the hosts are to be reached, as the options say."""

    via: str = ""
    sudo: bool = False
    send: bool = True
    fanout: int = 64
    connect_s: float | None = None
    log_from: str = ""

    @property
    def plain(self) -> bool:
        """Whether nothing stands between hangdoc and this machine."""
        return not self.via and not self.sudo


def opened(targets: Targets, reaching: Reaching, retry_s: float | None = None) -> Channel:
    """A channel to the targets, as `_opened` says, with the log of `--log-from`."""
    channel = _opened(targets, reaching, retry_s)
    if not reaching.log_from:
        return channel
    from ..hosts.logcommand import LogCommand

    try:
        return LogCommand(channel, reaching.log_from)
    except (ValueError, OSError) as error:
        channel.close()
        wrong = getattr(error, "strerror", None) or error
        raise exits.Stop(
            f"--log-from {reaching.log_from!r} cannot be run: {wrong}", "it runs on this machine"
        ) from None


def _opened(targets: Targets, reaching: Reaching, retry_s: float | None = None) -> Channel:
    """A channel to the targets; hosts that are lost are called again every `retry_s` seconds.

    Raises Stop where it cannot even be tried, ChannelError where this machine does not answer.
    """
    if not targets.hosts and reaching.plain:
        if sys.platform != "linux":
            raise exits.Stop(f"this machine runs no Linux ({sys.platform})", "name a host: hangdoc diagnose root@HOST")
        from ..hosts.local import LocalChannel

        return LocalChannel()
    import platform

    from ..hosts import roads
    from ..hosts.cluster import ClusterReach
    from ..hosts.fleet import Fleet

    way = roads.Way(reaching.via, reaching.sudo, reaching.connect_s)
    try:
        ways = roads.roads(targets.hosts, way) if targets.hosts else [roads.road_here(platform.node(), way)]
    except roads.BadRoad as error:
        raise exits.Stop(str(error), "--via 'docker exec -i NAME', or with {host} in place of ssh") from None
    reach = ClusterReach(ways, send_tool=reaching.send, fanout=reaching.fanout, connect_s=reaching.connect_s)
    return Fleet(reach, retry_s)


def unreachable(error: ChannelError, targets: Targets, reaching: Reaching) -> exits.Stop:
    """What is said when nothing could be read at all."""
    if targets.hosts or not reaching.plain:
        from ..analysis.advice import fix_of
        from ..model.places import REACH
        from ..model.sample import Unseen

        return exits.Stop(str(error), fix_of(Unseen(REACH, "failed", str(error))), exits.UNREACHABLE)
    return exits.Stop(f"this machine could not be read: {error}", error.last_words, exits.UNREACHABLE)


def no_launch(error: NoLaunch, channel: Channel | None) -> exits.Stop:
    """What is said when nothing that answers has the launch: it may be on a host that is lost."""
    lost = getattr(channel, "lost", [])
    if not lost:
        return exits.Stop(str(error), error.hint)
    rows = "".join(f"\n  {one.host}: {one.detail}" for one in lost[:_ROWS])
    more = f"\n  and {len(lost) - _ROWS} more" if len(lost) > _ROWS else ""
    return exits.Stop(f"{error}; {len(lost)} could not be reached:{rows}{more}", error.hint, exits.UNREACHABLE)


@contextmanager
def channel_to(targets: Targets, reaching: Reaching) -> Iterator[Channel]:
    """A channel, its agents ended on leaving. Raises Stop where there is no launch or no answer."""
    channel: Channel | None = None
    try:
        channel = opened(targets, reaching)
        yield channel
    except NoLaunch as error:
        raise no_launch(error, channel) from None
    except ChannelError as error:
        raise unreachable(error, targets, reaching) from None
    finally:
        if channel is not None:
            channel.close()
