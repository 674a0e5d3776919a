"""The channel to this machine, with what can go wrong turned into one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..hosts.channel import ChannelError
from ..hosts.local import LocalChannel
from ..session.target import NoLaunch
from . import exits


@contextmanager
def this_machine() -> Iterator[LocalChannel]:
    """A channel to an agent here, ended on leaving. Raises Stop where there is no launch or no answer."""
    channel: LocalChannel | None = None
    try:
        channel = LocalChannel()
        yield channel
    except NoLaunch as error:
        raise exits.Stop(str(error), error.hint) from None
    except ChannelError as error:
        raise exits.Stop(f"this machine could not be read: {error}", error.last_words, exits.UNREACHABLE) from None
    finally:
        if channel is not None:
            channel.close()
