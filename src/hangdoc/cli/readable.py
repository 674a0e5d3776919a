"""Names of families that no probe reads: asked for, they would look as if they were not set."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..probes import environ, machine, packages
from ..rules.conditions import Condition
from ..rules.form import KnownCause

_READ: dict[str, Callable[[str], bool]] = {
    "env": environ.allowed,
    "package": packages.WANTED.__contains__,
    "kernel_option": lambda name: machine.OPTIONS.match(name) is not None,
    "module": lambda name: machine.MODULES.match(name) is not None,
    "nvidia_parameter": machine.PARAMETERS.__contains__,
}


def unread(cause: KnownCause) -> Iterator[str]:
    """One sentence for each name that is asked for and that no probe reads."""
    for leaf in cause.when.leaves():
        if not _is_read(leaf):
            yield f"{leaf.fact} {leaf.name!r} is on no allow-list, so no probe reads it (docs/probes.md)"


def _is_read(leaf: Condition) -> bool:
    known = _READ.get(leaf.fact)
    return known is None or known(leaf.name)
