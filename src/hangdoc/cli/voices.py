"""How a watch speaks: JSON lines, plain lines, or a live screen. Events and lines in; nothing is judged here."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..codec import encode, report_json
from ..model.frozen import replace
from ..model.report import Report
from ..model.watching import Event, Moment
from ..report.safe import clean
from . import screen

_STATUS_S = 30.0  # a plain watch says that it still looks so often
# A screen on which only times and loads change is drawn at every fifth tick: threads, which tell what a member that moves is
# doing, are not looked at more often either (session/cadence.py).
_CALM_S = 4.5
_LINES = 40
_LINE = 2000


class Voice(Protocol):
    """One way to speak."""

    def events(self, events: list[Event], moment: Callable[[], Moment]) -> None:
        """What happened in one tick, perhaps nothing; `moment` costs, and is called only for what shows it."""

    def lines(self, lines: list[str]) -> None:
        """New lines of the command's output."""

    def report(self, report: Report) -> None:
        """A report; the last one ends the watch."""

    def close(self) -> None:
        """Leave the terminal as it was. May be called again."""


class Json:
    """One object a line, the report last."""

    def events(self, events: list[Event], moment: Callable[[], Moment]) -> None:  # noqa: ARG002
        """Print each event."""
        for one in events:
            screen.write(encode(one).decode() + "\n")

    def lines(self, lines: list[str]) -> None:
        """Print each line as an event."""
        for one in lines:
            screen.write(encode(Event("line", time.time(), one)).decode() + "\n")

    def report(self, report: Report) -> None:
        """Print it."""
        screen.write(report_json(report) + "\n")

    def close(self) -> None:
        """Nothing to do."""


class Plain:
    """Events on standard error; the command's lines and the report on standard output."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._next = time.monotonic() + _STATUS_S

    def events(self, events: list[Event], moment: Callable[[], Moment]) -> None:
        """Say what a person wants to hear of, and now and then that it goes on."""
        for one in events:
            if one.event == "verdict" and one.data.get("verdict") in ("undecided", "progressing"):
                continue
            self._say(one.at, f"{str(one.data['verdict']).upper()}: {one.text}" if one.event == "verdict" else one.text)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _STATUS_S
            report = moment().report
            self._say(report.hangdoc.at, f"still {report.verdict}: {report.summary}")

    def lines(self, lines: list[str]) -> None:
        """Show them."""
        if lines:
            screen.write("".join(clean(one, _LINE) + "\n" for one in lines))

    def report(self, report: Report) -> None:
        """Show the report."""
        screen.show(report, verbose=self._verbose)

    def close(self) -> None:
        """Nothing to do."""

    @staticmethod
    def _say(at: float, text: str) -> None:
        print(
            f"hangdoc {time.strftime('%H:%M:%S', time.localtime(at))}  {clean(text, 600)}", file=sys.stderr, flush=True
        )


class Live:
    """A screen that is drawn again at each tick in which the start goes on to something else, or all is not well, else at every
    fifth one; in the size that the terminal has then."""

    def __init__(self, *, note: str | None = None, verbose: bool = False) -> None:
        from rich.console import Console  # rich and all that draws cost 0.1 s, which `--json` need not pay
        from rich.live import Live as RichLive

        self._console = Console(highlight=False, markup=False, emoji=False, no_color=not screen.colour())
        self._live: RichLive | None = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._note = note
        self._verbose = verbose
        self._newest: deque[str] = deque(maxlen=_LINES)
        self._next = float("-inf")

    def events(self, events: list[Event], moment: Callable[[], Moment]) -> None:
        """Draw the screen."""
        if self._live is None:
            Plain().events(events, moment)
            return
        drawn = time.monotonic()
        if drawn < self._next and all(one.event == "member" for one in events):
            return  # the list of events tells of them in the next picture
        if any(one.data.get("verdict") == "ready" for one in events):
            return  # the report takes its place at once
        from ..report import live

        width, height = self._console.size
        now = replace(moment(), lines=list(self._newest), note=self._note)
        self._next = drawn + (_CALM_S if now.report.verdict == "progressing" else 0.0)
        self._live.update(live.screen(now, width=width, height=height), refresh=True)

    def lines(self, lines: list[str]) -> None:
        """Keep them for the screen; show them plainly when it is closed."""
        if self._live is None:
            Plain().lines(lines)
        self._newest.extend(lines)
        if lines:
            self._next = float("-inf")

    def report(self, report: Report) -> None:
        """Show the report in place of the screen."""
        self.close()
        from ..report import terminal

        width = self._console.size.width
        screen.write(terminal.render(report, width=width, colour=screen.colour(), verbose=self._verbose))

    def close(self) -> None:
        """Take the screen away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
