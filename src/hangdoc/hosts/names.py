"""From what a user calls hosts (`root@gpu[01-08]`, `@group`) to checked names, in order, each once.

Node sets and groups are ClusterShell's. Names end up in command lines, so that each is checked after it was expanded; and
an expression is measured before it is, since `gpu[1-100000000]` would be a hundred million names.
"""

from __future__ import annotations

import configparser
import contextlib
import ipaddress
import json
import math
import os
import re
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MOST = 4096  # hosts of one command
_ANSWER = 4 << 20  # bytes of all names of a group
_GROUPS_S = 10.0  # for the commands of a group configuration
_WORD = re.compile(r"[A-Za-z0-9._:%/@,\[\]-]{1,4096}\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:%/-]*\Z")
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?)?\Z")


class BadName(Exception):
    """What was given is no host, or too many. `hint` says what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def expand(words: Sequence[str]) -> tuple[str, ...]:
    """The hosts that the words mean, in the order given, each once. Raises BadName."""
    found: dict[str, str] = {}  # without its user: the same host twice is one
    for word in words:
        for name in _expanded(word):
            found.setdefault(name.rpartition("@")[2], name)
            if len(found) > MOST:
                raise BadName(f"more than {MOST} hosts", "name a part of them")
    if not found:
        raise BadName("no host was named")
    return tuple(found.values())


def _expanded(word: str) -> list[str]:
    if word.startswith("-"):
        raise BadName(f"{word!r} begins with a dash: that is no host name")
    if not _WORD.match(word):
        raise BadName(f"{word!r} holds characters that no host name has", "hosts are [user@]name, gpu[01-08] or @group")
    if _is_address(word.rpartition("@")[2]):
        return [word]
    user, at, rest = word.partition("@")
    if not user:  # @group
        user, at, rest = "", "", word
    elif at and not _USER.match(user):
        raise BadName(f"{user!r} in {word!r} is no user name")
    elif not at:
        user, rest = "", word
    if _count(rest) > MOST:
        raise BadName(f"{word!r} is more than {MOST} hosts", "name a part of them")
    names = _node_set(rest)
    if not names:
        raise BadName(f"{word!r} is no host at all", "an empty node set or group; clush -w would find none, too")
    if len(names) > MOST:
        raise BadName(f"{word!r} is more than {MOST} hosts", "name a part of them")
    for name in names:
        if not _NAME.match(name):
            raise BadName(f"{name!r} (of {word!r}) is no host name")
    return [f"{user}{at}{name}" for name in names]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _count(text: str) -> int:
    """How many names an expression stands for at least, read from its ranges; groups count as one."""
    total = 0
    for part in re.split(r",(?![^\[]*\])", text):
        total += math.prod(_span(ranges) for ranges in _RANGES.findall(part))
    return total


def _span(ranges: str) -> int:
    count = 0
    for one in ranges.split(","):
        found = _RANGE.match(one)
        if found is None:
            continue  # ClusterShell says what is wrong with it
        first, last, step = (int(number[:18]) if number else None for number in found.groups())
        count += 1 if first is None or last is None else max(0, last - first) // max(1, step or 1) + 1
    return count


def _node_set(text: str) -> list[str]:
    if not re.search(r"[\[\]@,]", text):
        return [text]  # the ordinary case needs no ClusterShell
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - 20 ms that a single host need not pay
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError  # noqa: PLC0415
    from ClusterShell.RangeSet import RangeSetException  # noqa: PLC0415

    try:
        if "@" in text:
            return _elsewhere(lambda: [str(name) for name in NodeSet(text, resolver=_resolver())])
        return [str(name) for name in NodeSet(text, resolver=_resolver())]
    except (NodeSetException, RangeSetException, GroupSourceError, GroupResolverError, configparser.Error) as error:
        wrong = f"no group source {error}" if isinstance(error, GroupResolverError) else str(error)
        raise BadName(f"{text!r} is no node set: {wrong or type(error).__name__}", _where_from(text)) from None


def _where_from(text: str) -> str:
    files = " and ".join(map(str, group_files())) or "no file"
    return f"groups are read from {files}; see docs/hosts.md" if "@" in text else ""


def group_files() -> list[Path]:
    """The user's own ClusterShell group configuration; never the samples that its packages install elsewhere."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    files = [Path(home) / "clustershell" / "groups.conf"]
    if named := os.environ.get("CLUSTERSHELL_CFGDIR"):
        files.append(Path(named) / "groups.conf")
    return [one for one in files if one.is_file()]


def _resolver() -> Any:
    from ClusterShell.NodeSet import ILLEGAL_GROUP_CHARS  # noqa: PLC0415
    from ClusterShell.NodeUtils import GroupResolver, GroupResolverConfig  # noqa: PLC0415

    files = [str(one) for one in group_files()]
    return (
        GroupResolverConfig(files, ILLEGAL_GROUP_CHARS) if files else GroupResolver(illegal_chars=ILLEGAL_GROUP_CHARS)
    )


def _elsewhere(find: Callable[[], list[str]]) -> list[str]:
    """What `find` gives, in a process and session of its own: a group configuration runs commands, which may hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(reading)
            try:
                answer: dict[str, object] = {"names": find()}
            except Exception as error:  # told by whoever asked
                answer = {"wrong": str(error) or type(error).__name__}
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writing)
    raw, end = b"", time.monotonic() + _GROUPS_S
    try:
        while select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
            part = os.read(reading, 1 << 16)
            raw += part
            if not part or len(raw) > _ANSWER:
                break
        else:
            raise BadName(f"the group configuration did not answer within {_GROUPS_S:.0f} s", _where_from("@"))
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = {"wrong": "no answer"}
    if "names" not in answer:
        raise BadName(f"that group is not known: {answer['wrong']}", _where_from("@"))
    return list(answer["names"])  # type: ignore[call-overload,no-any-return]
