"""Take out of a report what must not stand in a public issue: hosts, addresses, user names in paths, secrets.

Arguments and environment were masked already on the host where they were read; this is a second net, and it
also catches what people type. The same name gets the same stand-in all over the report.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, TypeVar

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
    r"(?:bearer\s)?)(?!none\b|true\b|false\b|null\b)[^\s'\",;}]{6,300}"
)
_URL_LOGIN = re.compile(r"(\w{2,12}://)[^/\s:@]{1,100}:[^/\s@]{1,200}@")


def anonymise(report: Report) -> Report:
    """The same report without names of hosts and users, addresses and secrets. Pure."""
    hosts = sorted(
        {
            row.host
            for rows in (report.processes, report.culprits, report.ranks, report.ports, report.unseen)
            for row in rows
            if row.host
        }
    )
    stand_ins = {name: f"host-{number}" for number, name in enumerate(hosts, 1)}
    pattern = re.compile(
        "|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(stand_ins, key=len, reverse=True))
        or r"(?!)"
    )

    def scrub(text: str) -> str:
        return scrub_text(pattern.sub(lambda found: stand_ins[found.group()], text))

    return _walk(report, scrub)


def scrub_text(text: str) -> str:
    """One text without user names in paths, addresses and secrets."""
    text = _URL_LOGIN.sub(r"\1***@", _TOKEN.sub("***", text))
    text = _NAMED.sub(r"\1***", text)
    text = _HOME.sub("~", text)
    return _IPV6.sub("ADDRESS", _IPV4.sub("ADDRESS", text))


def _walk(value: T, scrub: Callable[[str], str]) -> T:
    """`value` with every string in it scrubbed: dataclasses, lists, tuples and dicts are walked."""
    walked: Any = value
    if isinstance(value, str):
        walked = scrub(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {one.name: _walk(getattr(value, one.name), scrub) for one in dataclasses.fields(value)}
        walked = dataclasses.replace(value, **changed)
    elif isinstance(value, (list, tuple)):
        walked = type(value)(_walk(one, scrub) for one in value)
    elif isinstance(value, dict):
        walked = {_walk(key, scrub): _walk(one, scrub) for key, one in value.items()}
    return walked  # type: ignore[no-any-return]
