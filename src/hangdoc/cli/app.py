"""The command line: one table of commands, each imported only when it is called, and one place for errors.

A command is a module of this package with a function `command` that typer understands; it returns its exit
status (or None for 0), prints results to standard output and everything else to standard error.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence

import typer

from .. import __version__
from ..report.safe import clean_lines
from . import exits, screen

# name -> what it is for, in the order of the help page; the module has the same name
COMMANDS: dict[str, str] = {
    "diagnose": "Look once and say whether a launch is slow or stuck, where, and because of which rank.",
    "watch": "Follow a start until it is ready, hung or crashed; with -- COMMAND, start it, too.",
    "record-baseline": "Record a good start, or merge a further one.",
    "baselines": "List, show and compare the good starts on record.",
    "causes": "List the known causes, show one, or check one of your own.",
    "ps": "List the launches found here, their roles, ranks and phase.",
    "check": "Say what can be seen here, and how to see more.",
    "report": "Render a saved case again.",
    "demo": "Start a miniature server that really hangs, and diagnose it.",
    "agent": "Show exactly what would be run on a remote host.",
}
_COMPLETION = "_HANGDOC_COMPLETE"


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Never lets an exception out."""
    screen.prepare()
    try:
        status = _run(arguments)
        screen.write("")  # what the parser printed and did not flush
    except exits.Stop as stop:
        status = complain(str(stop), stop.hint, stop.status)
    except KeyboardInterrupt:
        status = complain("interrupted", status=exits.INTERRUPTED)
    except SystemExit as leave:
        # typer turns a broken pipe into status 1, which is "hung" here; completion leaves in this way, too.
        if not isinstance(leave.__context__, BrokenPipeError):
            raise
        status = exits.OK
    except Exception as error:  # the boundary: a traceback would end with status 1, that is "hung"
        status = _lost(error) or _defect(error)
    return status


def complain(message: str, hint: str = "", status: int = exits.USAGE) -> int:
    """Print one message and a hint to standard error; give back the status."""
    screen.note(clean_lines(f"hangdoc: {message}"))
    if hint:
        screen.note(clean_lines(f"         {hint}"))
    return status


def _run(arguments: Sequence[str]) -> int:
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    everything = _COMPLETION in os.environ
    app = build(lambda name: everything or name == wanted)
    try:
        result = app(args=list(arguments), prog_name="hangdoc", standalone_mode=False, obj=list(arguments))
    except Exception as error:
        status = _usage(error)
        if status is None:
            raise
        return status
    return result if isinstance(result, int) else exits.OK


def build(load: Callable[[str], bool]) -> typer.Typer:
    """The whole application; commands that `load` refuses are names with a help text only."""
    app = typer.Typer(
        name="hangdoc",
        help="Is my vLLM or SGLang launch slow or stuck, where, because of which rank, and what do I do?",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global_options)
    for name, purpose in COMMANDS.items():
        function = (
            importlib.import_module(f"hangdoc.cli.{name.replace('-', '_')}").command if load(name) else _not_loaded
        )
        app.command(name, short_help=purpose, help=None if load(name) else purpose)(function)
    return app


def _global_options(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit."),
) -> None:
    if version:
        screen.write(f"hangdoc {__version__}\n")
        raise typer.Exit


def _not_loaded() -> None:
    """Stands for a command that this command line does not call."""


def _usage(error: Exception) -> int | None:
    """Exit status of an error of the command-line parser, after telling it; None when it is none of its errors."""
    # typer brings click along as a package of its own or inside itself, so its classes are known by their methods.
    code = getattr(error, "exit_code", None)
    if not isinstance(code, int):
        return complain("interrupted", status=exits.INTERRUPTED) if type(error).__name__ == "Abort" else None
    show = getattr(error, "format_message", None)
    if show is None:
        return code
    context = getattr(error, "ctx", None)
    message = show()
    if not message or type(error).__name__ == "NoArgsIsHelpError":
        screen.note(context.get_help() if context else "")
        return exits.USAGE
    path = context.command_path if context else "hangdoc"
    return complain(message, f"see {path} --help")


def _lost(error: Exception) -> int | None:
    """Exit status when a print of the parser or of a library met a standard output that takes nothing."""
    if not isinstance(error, OSError) or error.filename is not None:
        return None
    try:
        screen.write("")
    except exits.Stop as stop:
        return complain(str(stop), status=stop.status)
    return None


def _defect(error: Exception) -> int:
    if os.environ.get("HANGDOC_DEBUG"):
        raise error
    hint = "this is a defect of hangdoc; HANGDOC_DEBUG=1 shows where it happened"
    return complain(f"{type(error).__name__}: {error}", hint, exits.INTERNAL)
