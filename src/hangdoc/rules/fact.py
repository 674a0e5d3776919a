"""What a fact is: type, scope, probe and meaning; and what to do about a probe that told nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["bool", "number", "seconds", "bytes", "text", "texts", "version", "lines"]
Scope = Literal["launch", "host", "member"]

KIND_WORDS: dict[Kind, str] = {
    "bool": "true or false",
    "number": "a number",
    "seconds": "a duration in seconds",
    "bytes": "a size in bytes",
    "text": "one text",
    "texts": "a set of texts",
    "version": "a version, compared by its release numbers",
    "lines": "lines of a log; asked with a pattern",
}
# Probe -> what to do when it was not asked or told nothing. "judged" facts rest on several probes.
PROBES: dict[str, str] = {
    "judged": "give it more time: run `hangdoc diagnose` again, or `hangdoc watch`",
    "arguments": "look while the root process lives: its command line holds the arguments",
    "processes": "run as the owner of the processes or as root, on the host",
    "threads": "run as the owner of the processes or as root, on the host",
    "stacks": "run with --stacks auto, as the owner of the processes or as root",
    "native": "run with --deep, which pauses the process for up to 2 s",
    "fds": "run as the owner of the processes or as root, on the host",
    "sockets": "run as root on the host (in the container's network namespace)",
    "environ": "run as the owner of the processes or as root, on the host",
    "packages": "run as the owner of the processes or as root, on the host",
    "logs": "name the log with --log FILE",
    "storage": "run as the owner of the processes or as root, on the host",
    "kernel": "run as root on the host",
    "machine": "run as root on the host, not in a container",
    "network": "run as root on the host",
    "host": "run as root on the host, not in a container",
    "health": "look from the host of the server, where its port can be asked",
    "baseline": "record a good start with `hangdoc record-baseline NAME`",
}


class Fact(msgspec.Struct, frozen=True):
    """One row of the list."""

    name: str
    kind: Kind
    scope: Scope
    probe: str  # where it comes from, a key of PROBES
    means: str  # one sentence
    label: str = ""  # how a sentence of evidence names it; the name when empty
    named: bool = False  # it is a family, asked with `name`: one variable, one argument, one package

    @property
    def said(self) -> str:
        """How a sentence names it."""
        return self.label or self.name.replace("_", " ")
