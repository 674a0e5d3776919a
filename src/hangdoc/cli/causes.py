"""`hangdoc causes list|show|check`: the catalogue, one page of it, and whether a cause of your own is well made."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import typer

from ..report.safe import clean
from ..rules import load, pages
from ..rules.examples import failures
from ..rules.facts import FACTS
from ..rules.form import BadCause, KnownCause
from . import exits, screen
from .known import catalogue_of
from .options import CausesOption
from .readable import unread


class Action(str, Enum):
    """What to do."""

    list = "list"
    show = "show"
    check = "check"


def command(
    action: Action = typer.Argument(Action.list, help="list, show ID, check FILE..."),
    names: list[str] = typer.Argument(None, metavar="[ID | FILE...]", help="A cause's id, or files of your own."),
    causes: CausesOption = [],  # noqa: B006 - typer copies it
) -> int:
    """List the known causes, show one, or check files of your own."""
    names = names or []
    if action is Action.check:
        return _check(names)
    if len(names) != (action is Action.show):
        raise exits.Stop(f"causes {action.value} takes {int(action is Action.show)} names, not {len(names)}")
    known = catalogue_of(causes).causes
    if action is Action.list:
        screen.write("".join(f"{clean(row, 200)}\n" for row in _list(known)))
        return exits.OK
    found = next((one for one in known if one.id == names[0]), None)
    if found is None:
        near = [one.id for one in known if names[0] in one.id][:8]
        raise exits.Stop(
            f"there is no cause {names[0]!r}", f"near it: {', '.join(near)}" if near else "hangdoc causes list"
        )
    screen.write("".join(f"{clean(line, 2000)}\n" for line in pages.page(found).splitlines()))
    return exits.OK


def _list(known: tuple[KnownCause, ...]) -> Iterator[str]:
    width = max((len(one.id) for one in known), default=0)
    for one in sorted(known, key=lambda one: one.id):
        yield f"{one.id:{width}}  {'preview' if one.status == 'preview' else 'stable '}  {one.title}"


def _check(names: list[str]) -> int:
    """Check files, or all files of folders; status 2 when something is wrong with one."""
    if not names:
        raise exits.Stop("causes check takes files, and none was given", "hangdoc causes check FILE", exits.USAGE)
    paths = [one for name in names for one in (load.files(Path(name)) if Path(name).is_dir() else [Path(name)])]
    status = exits.OK
    for path in paths:
        try:
            found = load.read(path)
        except BadCause as error:
            screen.note(f"hangdoc: {clean(str(error), 600)}")
            status = exits.USAGE
            continue
        wrong = [*failures(found), *unread(found)]
        for one in wrong:
            screen.note(f"hangdoc: {path}: {clean(one, 300)}")
        status = exits.USAGE if wrong else status
        if not wrong:
            screen.write("".join(f"{clean(row, 300)}\n" for row in _told(found)))
    return status


def _told(one: KnownCause) -> Iterator[str]:
    yield f"{one.id}: well made, {len(one.examples)} examples give what they expect"
    for name in one.facts():
        yield f"  asks for {name} ({FACTS[name].probe}): {FACTS[name].means}"
