"""Command lines: which program it is, and its arguments by one name each. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

_PYTHON = re.compile(r"(?:python|pypy|pt_main_thread)[\d.]*[a-z]?")
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_NUMBER = re.compile(r"-?[\d.]+(?:[eE][+-]?\d+)?")
_DIGITS = 9
_INTERPRETER_VALUES = ("-X", "-W", "--check-hash-based-pycs")


class Program(msgspec.Struct, frozen=True):
    """What a command line runs. `words` begins with a script's path, "-m MODULE", "-c CODE", or an executable."""

    kind: Literal["python", "other", "none"]
    words: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The words joined by blanks, the form that `Profile.roots` is written for."""
        return " ".join(self.words)

    @property
    def name(self) -> str:
        """Its name without folders."""
        return posixpath.basename(self.words[0]) if self.words else ""


def program(cmdline: Sequence[str] | None) -> Program:
    """Tell the program from its interpreter: `python -u -m x.y` runs "-m x.y", `python /bin/vllm` runs "/bin/vllm"."""
    words = tuple(cmdline or ())
    if not words or not words[0]:
        return Program("none")
    if not _PYTHON.fullmatch(posixpath.basename(words[0])):
        return Program("other", words)
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        if word in ("-m", "-c"):
            return Program("python", (" ".join(words[at : at + 2]), *words[at + 2 :]))
        if not word.startswith("--") and word[-1:] in ("m", "c") and not word.startswith(("-X", "-W")):  # -um, -Ic
            return Program("python", (f"-{word[-1]} {' '.join(words[at + 1 : at + 2])}", *words[at + 2 :]))
        at += 2 if word in _INTERPRETER_VALUES else 1
    script = words[at : at + 1]
    if " " in posixpath.dirname("".join(script)):  # blanks part words: a folder with one in its name is left out
        script = (posixpath.basename(script[0]),)
    return Program("python", (*script, *words[at + 1 :]))


def _key(word: str, aliases: Mapping[str, str]) -> str:
    name = word.lstrip("-").replace("_", "-")
    head, dot, rest = name.partition(".")
    return aliases.get(head, head) + dot + rest


def _value(words: Sequence[str], at: int) -> tuple[str, int]:
    """The values that follow an option, joined by blanks, and where they end."""
    end = at
    while end < len(words) and (not words[end].startswith("-") or _NUMBER.fullmatch(words[end])):
        end += 1
    return " ".join(words[at:end]), end


def arguments(words: Sequence[str], aliases: Mapping[str, str], flags: Sequence[str] = ()) -> dict[str, str]:
    """Options by their one long name without dashes: `--tp 2`, `--tp=2`, `-tp 2`, `--tensor_parallel_size 2` are one.

    A flag gives "". The last of several wins, as argparse has it. Words that belong to no option are kept under "".
    """
    found: dict[str, str] = {}
    loose: list[str] = []
    at = 0
    while at < len(words):
        word, equals, value = words[at].partition("=")
        at += 1
        if not _OPTION.fullmatch(word):
            loose.append(words[at - 1])
            continue
        name = _key(word, aliases)
        if not equals and name not in flags:
            value, at = _value(words, at)
        found[name] = value
    if loose:
        found[""] = " ".join(loose)
    return found


def number(args: Mapping[str, str], name: str, default: int = 1) -> int:
    """An argument as a number, else the default."""
    text = args.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS else default
