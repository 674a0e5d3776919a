"""What the words of a command line mean as targets: nothing, a PID, hosts, `host:PID`, a case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..hosts.channel import Channel
from . import exits

_WITH_PID = re.compile(r"(.+):([0-9]+)\Z")
_LIKE_A_FILE = re.compile(r"^[./~]|\.(case|json|log|gz)\Z")
_HINT = "a target is a PID, [user@]host, host:PID, gpu[01-08], @group, or a case saved with --save"


class Targets(msgspec.Struct, frozen=True):
    """All empty: this machine, and the launch that is found here."""

    hosts: tuple[str, ...] = ()  # as named, expanded, each once
    pid: int | None = None  # of a process of the launch …
    pid_host: str | None = None  # … on this host; None where none was named
    cases: tuple[Path, ...] = ()


def parse(words: Sequence[str], pid: int = 0) -> Targets:
    """The targets of a command line. `pid` is what `--pid` said. Raises Stop."""
    digits = [word for word in words if word.isascii() and word.isdigit()]
    files = [Path(word) for word in words if word not in digits and _is_file(word)]
    others = [word for word in words if word not in digits and Path(word) not in files]
    pids = list(dict.fromkeys([*([pid] if pid else []), *map(int, digits)]))
    if len(pids) > 1:
        raise exits.Stop(
            f"two targets: {' and '.join(map(str, pids))}", "name one of them; any process of the launch will do"
        )
    if files and (others or pids):
        raise exits.Stop(f"{files[0]} is a file, and there are other targets", "a case is looked at by itself")
    if files or not others:
        return Targets(pid=pids[0] if pids else None, cases=tuple(files))
    return _hosts(others, pids)


def _is_file(word: str) -> bool:
    try:
        return Path(word).exists() and not Path(word).is_dir()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def live(words: Sequence[str], pid: int = 0) -> Targets:
    """The same, for a command that looks at what runs. Raises Stop."""
    found = parse(words, pid)
    if found.cases:
        raise exits.Stop(
            f"{found.cases[0]} is a file, and this looks at what runs now", "hangdoc diagnose CASE, hangdoc report CASE"
        )
    return found


def pid_of(channel: Channel, targets: Targets) -> int | None:
    """The process that was named, as the samples of the channel number it."""
    if targets.pid is None or targets.pid_host is None:
        return targets.pid
    from ..hosts.fleet import Fleet

    channel = getattr(channel, "inner", channel)  # beneath what adds a log
    return channel.pid(targets.pid_host, targets.pid) if isinstance(channel, Fleet) else targets.pid


def _hosts(words: Sequence[str], pids: list[int]) -> Targets:
    from ..hosts import names

    for word in words:
        if _LIKE_A_FILE.search(word):
            raise exits.Stop(f"{word} is neither a PID, a host nor a file", _HINT)
    named: list[tuple[str, int]] = []
    bare = []
    for word in words:
        found = _WITH_PID.match(word)
        whole = word if found is None or word.count(":") > 1 else found.group(1)
        bare.append(whole)
        if found is not None and whole != word:
            named.append((whole, int(found.group(2))))
    try:
        hosts = names.expand(bare)
        for word, pid in named:
            if len(names.expand([word])) > 1:
                raise exits.Stop(
                    f"{word}:{pid}: a PID belongs to one host", "name host:PID, and the other hosts by themselves"
                )
    except names.BadName as error:
        raise exits.Stop(str(error), error.hint or _HINT) from None
    if len(named) > 1 or (named and pids):
        raise exits.Stop("several processes are named", "name one; any process of the launch will do")
    if named:
        return Targets(hosts, named[0][1], named[0][0])
    if pids and len(hosts) > 1:
        raise exits.Stop(f"--pid {pids[0]} on which host?", f"hangdoc diagnose {hosts[0]}:{pids[0]} …")
    return Targets(hosts, pids[0] if pids else None, hosts[0] if pids else None)
