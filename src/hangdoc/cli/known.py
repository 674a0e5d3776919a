"""Known causes for commands: the shipped ones, the user's own, and folders that were named."""

from __future__ import annotations

from pathlib import Path

from ..rules import load
from ..rules.form import BadCause
from ..rules.known import Known
from . import exits, screen


def catalogue_of(folders: list[str]) -> load.Catalogue:
    """All causes, with those of `--causes` folders. What is wrong with one of the user's own is said and left out.

    Raises Stop where a named folder or a cause in it cannot be used.
    """
    paths = [Path(one) for one in folders]
    for path in paths:
        if not path.is_dir():
            raise exits.Stop(f"there is no folder {path}", "--causes takes a folder with causes in it", exits.USAGE)
    try:
        found, problems = load.with_own(paths)
    except BadCause as error:
        raise exits.Stop(str(error), "hangdoc causes check FILE says more", exits.USAGE) from None
    own = found.causes[len(load.shipped()) :]
    if own:
        from .readable import unread  # it asks the probes, which need not be here to look

        problems += [f"{one.id}: {what}" for one in own for what in unread(one)]
    for problem in problems:
        screen.note(f"hangdoc: a cause of your own: {problem}")
    return found


def known_causes(folders: list[str]) -> Known:
    """The same as a Diagnosis takes them."""
    return Known(catalogue_of(folders))
