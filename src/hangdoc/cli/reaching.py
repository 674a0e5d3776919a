"""The options that say how hosts are reached: the same for every command that looks at targets, written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

from .here import Reaching

_OPTIONS: dict[str, tuple[type, Any]] = {
    "via": (
        str,
        typer.Option(
            "",
            "--via",
            metavar="COMMAND",
            help="Run there by this: 'docker exec -i NAME' (behind ssh, or here); with {host} in it, in place of ssh.",
        ),
    ),
    "sudo": (bool, typer.Option(False, "--sudo", help="Run as root there, by sudo -n.")),
    "no_send": (bool, typer.Option(False, "--no-send", help="Send no py-spy to a host that has none.")),
    "fanout": (int, typer.Option(64, "--fanout", min=1, help="Hosts that are called at the same time.")),
    "log_from": (
        str,
        typer.Option(
            "", "--log-from", metavar="COMMAND", help="A log that this prints, here: 'kubectl logs --timestamps POD'."
        ),
    ),
    "connect_timeout": (
        float,
        typer.Option(
            0.0, "--connect-timeout", min=0.0, metavar="S", help="Seconds for a host to answer.", show_default=False
        ),
    ),
}


def reaches(function: Callable[..., int]) -> Callable[..., int]:
    """A command with a parameter `reaching` that gets these options in its place."""

    @functools.wraps(function)
    def command(**values: Any) -> int:
        via, sudo, no_send, fanout, log_from, connect = (values.pop(name) for name in _OPTIONS)
        return function(reaching=Reaching(via, sudo, not no_send, fanout, connect or None, log_from), **values)

    hints = get_type_hints(function, include_extras=True)
    kept = [
        one.replace(annotation=hints[name])
        for name, one in inspect.signature(function).parameters.items()
        if name != "reaching"
    ]
    added = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
        for name, (kind, default) in _OPTIONS.items()
    ]
    command.__signature__ = inspect.Signature([*kept, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*kept, *added)}
    return command
