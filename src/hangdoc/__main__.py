"""The `hangdoc` command. `--version` is answered here, before anything heavy is imported."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn

from . import __version__


def main() -> int:
    """Run the command line and return its exit status (cli/exits.py says what each means)."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        try:
            print(f"hangdoc {__version__}", flush=True)
        except OSError as error:  # as `screen.write` has it
            return 0 if isinstance(error, BrokenPipeError) else 74
        return 0
    # What imports define is no garbage: to look for some after every 700 objects is a tenth of a start.
    gc.set_threshold(100_000)
    try:
        from .cli.app import run  # noqa: PLC0415 - typer and rich cost 100 ms and more

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # during the import; later ones end in `run`
        return 130


def command() -> NoReturn:
    """What is installed as `hangdoc`. Ends without taking Python apart, which costs as much as a tenth of its start: results are
    written by now, and nothing is left to others to close."""
    status = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # full, closed, or never there
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    command()
