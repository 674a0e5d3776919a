"""Take out what must not leave: hosts, addresses, user names, secrets, and on demand paths. One name, one stand-in.

Arguments and environment were masked already on the host where they were read; this is a second net, and it also
catches what people type. A `Names` gives the same stand-in to the same name however often it is asked, in a report, in
every sample of a case, and on whichever host the name was seen.
"""

from __future__ import annotations

import dataclasses
import functools
import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ..model.frozen import replace
from ..model.report import Report

T = TypeVar("T")

_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s:'\"]{1,64}|(?<![\w.])/root(?=/|\b)")
_IPV4 = re.compile(r"(?<![\d.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_IPV6 = re.compile(
    r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])"
    r"|(?<![\w:])[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,5}::[0-9a-fA-F]{1,4}(?![\w:])"
)
_TOKEN = re.compile(r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|nvapi-)[A-Za-z0-9_\-]{8,200}")
_NAMED = re.compile(
    r"(?i)\b((?:[a-z0-9]+[_-]){0,4}(?:api[_-]?key|token|secret|password|passwd|authorization)['\"]?\s{0,2}[=: ]\s{0,2}['\"]?"
    r"(?:bearer\s)?)(?!none\b|true\b|false\b|null\b|\*\*\*)[^\s'\",;}]{6,300}"
)
_URL_LOGIN = re.compile(r"(\w{2,12}://)[^/\s:@]{1,100}:[^/\s@]{1,200}@")
_LOGIN = re.compile(r"(?<![\w.@-])[A-Za-z_][\w.-]{0,31}@(?=host-\d)")
_PATH = re.compile(r"(?<![\w./~>\]-])(?:~|/)(?:[\w.+@=,~%-]{1,255}/){1,40}")
# Folders of the system, which are the same everywhere and say what is wrong.
_SYSTEM = re.compile(r"/(?:proc|dev|sys|usr|bin|sbin|lib|lib64|etc|run|var/run|tmp)/|~?/health\b")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/.*\Z|/lib/python\d[\d.]*/.*\Z")


class Names:
    """Names that were met, each with its stand-in."""

    def __init__(self, *, paths: bool = False) -> None:
        """`paths`: folders that are no system's become `/path-N`; file names, and what lies in site-packages, stay."""
        self._paths = paths
        self._known: dict[str, dict[str, str]] = {"host": {}, "address": {}, "path": {}}
        self._masked = 0
        self._hosts = re.compile(r"(?!)")

    def add_hosts(self, hosts: Iterable[str]) -> None:
        """Names of hosts to look for; `user@` before one is no part of it."""
        names = {host.rpartition("@")[2] for host in hosts if host}
        fresh = sorted(name for name in names if name not in self._known["host"] and not _is_stand_in(name))
        for name in fresh:
            self._stand_in("host", name)
        if fresh:
            known = sorted(self._known["host"], key=len, reverse=True)
            self._hosts = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in known))

    def text(self, text: str) -> str:
        """One text without any of it."""
        text = self._mask(_URL_LOGIN, r"\1***@", self._mask(_TOKEN, "***", text))
        text = self._mask(_NAMED, r"\1***", text)
        text = self._hosts.sub(lambda found: self._known["host"][found.group()], text)
        text = _LOGIN.sub("user@", _HOME.sub("~", text))
        for pattern in (_IPV4, _IPV6):
            text = pattern.sub(lambda found: self._stand_in("address", found.group()), text)
        return _PATH.sub(self._folder, text) if self._paths else text

    def everything(self, value: T) -> T:
        """`value` with every string in it changed: dataclasses, lists, tuples and dicts are walked. Words of hangdoc's own, such
        as a role, stay, whatever a host is called."""
        return _walk(value, self.text)

    def told(self) -> dict[str, int]:
        """How much of what was taken out, by kind."""
        counts = {f"{kind}{'es' if kind == 'address' else 's'}": len(known) for kind, known in self._known.items()}
        return {kind: count for kind, count in {**counts, "secrets": self._masked}.items() if count}

    def _stand_in(self, kind: str, name: str) -> str:
        known = self._known[kind]
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def _mask(self, pattern: re.Pattern[str], stand_in: str, text: str) -> str:
        changed, count = pattern.subn(stand_in, text)
        self._masked += count
        return changed

    def _folder(self, found: re.Match[str]) -> str:
        folder = found.group()
        if _SYSTEM.match(folder) or _is_stand_in(folder.strip("/").partition("/")[0]):
            return folder
        inside = _INSTALLED.search(folder)
        kept = inside.group() if inside else "/"
        outside = posixpath.normpath(folder[: inside.start()] if inside else folder)
        return f"/{self._stand_in('path', outside)}{kept}"


def _is_stand_in(name: str) -> bool:
    return re.fullmatch(r"(?:host|address|path)-\d+", name) is not None


def hosts_of(report: Report) -> set[str]:
    """Every host that a report names."""
    tables = (report.processes, report.culprits, report.ranks, report.ports, report.unseen)
    return {row.host for rows in tables for row in rows if row.host}


def anonymise(report: Report, names: Names | None = None) -> Report:
    """The same report without names of hosts and users, addresses and secrets; with what was taken out in `redacted`."""
    names = names or Names()
    names.add_hosts(hosts_of(report))
    return replace(names.everything(report), redacted=names.told() or report.redacted)


def scrub_text(text: str) -> str:
    """One text without user names in paths, addresses and secrets."""
    return Names().text(text)


@functools.cache
def _own_words(kind: type) -> frozenset[str]:
    """Fields of a dataclass that hold nothing but words of a list (`model.words`)."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if _lists_words(hint))


def _lists_words(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return True
    parts = [one for one in get_args(hint) if one not in (type(None), ...)]
    return bool(parts) and all(map(_lists_words, parts))


def _walk(value: T, scrub: Callable[[str], str]) -> T:
    """`value` with every string in it scrubbed: dataclasses, lists, tuples and dicts are walked."""
    walked: Any = value
    if isinstance(value, str):
        walked = scrub(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = {one.name for one in dataclasses.fields(value)} - _own_words(type(value))
        changed = {name: _walk(getattr(value, name), scrub) for name in names}
        walked = replace(value, **changed)
    elif isinstance(value, (list, tuple)):
        walked = type(value)(_walk(one, scrub) for one in value)
    elif isinstance(value, dict):
        walked = {_walk(key, scrub): _walk(one, scrub) for key, one in value.items()}
    return walked  # type: ignore[no-any-return]
