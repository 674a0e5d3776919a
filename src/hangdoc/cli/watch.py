"""`hangdoc watch`: follow a start, or start a command and follow it, until it is ready, hung or has crashed."""

from __future__ import annotations

import signal
import sys
import time
from enum import Enum
from pathlib import Path

import typer

from ..analysis.diagnosis import Reasons
from ..hosts.channel import RETRY_S, ChannelError
from ..model.report import Report
from ..model.watching import Event, Moment
from ..session import target
from ..session.child import CannotStart, Child, default_log
from ..session.comparing import Baselines
from ..session.look import Options
from ..session.outlets import Notifier, Textfile, run_with_report
from ..session.watch import Watch, WatchOptions
from . import exits, screen, voices
from .good import baselines_of
from .here import Reaching, no_launch, opened, unreachable
from .known import known_causes
from .options import (
    BaselineOption,
    CausesOption,
    FailOnOption,
    PidOption,
    SaveOption,
    Stacks,
    StacksOption,
    VerboseOption,
    open_case,
)
from .reaching import reaches
from .targets import Targets, live, pid_of

_LINES_S = 0.5  # how often the command's output is looked at after the start


class OnHang(str, Enum):
    """What to do about a hang, or about a crash whose launcher lives on."""

    report = "report"
    exit = "exit"
    kill = "kill"


@reaches
def command(  # noqa: PLR0913, PLR0917 - typer reads the options from the signature
    context: typer.Context,
    reaching: Reaching,
    words: list[str] = typer.Argument(
        None,
        metavar="[TARGET... | -- COMMAND...]",
        help="Any process of the launch, hosts, or a command to start. Default: the launch on this machine.",
    ),
    pid: PidOption = 0,
    log: str = typer.Option(
        "",
        "--log",
        metavar="FILE",
        help="With a command: its log, else one in the state folder. Without: a log of the launch.",
    ),
    detach: bool = typer.Option(
        False, "--detach", help="At ready, leave the command and end; otherwise stay as its parent."
    ),
    on_hang: OnHang = typer.Option(
        OnHang.report, "--on-hang", help="Only report a hang, end hangdoc, or end the launch, too."
    ),
    exec_: str = typer.Option(
        "", "--exec", metavar="COMMAND", help="Run this with the report on its standard input, as JSON."
    ),
    textfile: str = typer.Option(
        "", "--textfile", metavar="FILE", help="Keep phase, age and verdict in a file for Prometheus."
    ),
    baseline: BaselineOption = "auto",
    causes: CausesOption = [],  # noqa: B006 - typer copies it
    stacks: StacksOption = Stacks.auto,
    timeout: float = typer.Option(
        0.0, min=0.0, help="End the watch after so many seconds. 0: never.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="One JSON object a line as things happen, the report last."),
    save: SaveOption = "",
    fail_on: FailOnOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Follow a start from its first second: phases, ranks, verdict, until it is ready, hung or has crashed."""
    words, started = words or [], "--" in (context.obj or ())
    if started and not words:
        raise exits.Stop("no command after --", "hangdoc watch -- vllm serve MODEL", exits.USAGE)
    if started and (reaching != Reaching() or pid):
        raise exits.Stop("a command is started on this machine", "leave out --via, --sudo and --pid", exits.USAGE)
    targets = Targets() if started else live(words, pid)
    if on_hang is OnHang.kill and (targets.hosts or not reaching.plain):
        raise exits.Stop("--on-hang kill ends processes of this machine, and this looks at others", "leave it out")
    if detach and not started:
        raise exits.Stop("--detach leaves a command that was started, and none was given", "", exits.USAGE)
    session = _Session(words if started else [], log, json=json, verbose=verbose)
    session.targets, session.reaching = targets, reaching
    session.detach, session.on_hang, session.exec = detach, on_hang, exec_
    session.textfile = Textfile(Path(textfile)) if textfile else None
    session.stacks, session.timeout, session.save = stacks is Stacks.auto, timeout or None, save
    session.baselines, session.reasons = baselines_of(baseline), known_causes(causes)
    session.fail_on = fail_on.value if fail_on else None
    return session.run()


class _Session:
    """One call of the command."""

    def __init__(self, words: list[str], log: str, *, json: bool, verbose: bool) -> None:
        self.words, self.log, self.json, self.verbose = words, log, json, verbose
        self.targets = Targets()
        self.reaching = Reaching()
        self.detach = False
        self.on_hang = OnHang.report
        self.exec = ""
        self.textfile: Textfile | None = None
        self.stacks = True
        self.baselines: Baselines | None = None
        self.reasons: Reasons | None = None
        self.timeout: float | None = None
        self.save = ""
        self.fail_on: exits.FailOn | None = None
        self.child: Child | None = None
        self.told = 0  # how many of the signals that were sent on to it
        self.notifier = Notifier()
        self.voice: voices.Voice = voices.Json() if json else voices.Plain(verbose=verbose)
        self.report: Report | None = None
        self.reported: tuple[object, ...] = ()

    def run(self) -> int:
        """Watch, and give the exit status."""
        channel, case = None, None
        try:
            channel = opened(self.targets, self.reaching, RETRY_S)
            if self.words:
                self._start()
            first = target.scan(channel, together=True)
            named = self.child.pid if self.child else pid_of(channel, self.targets)
            launch = target.choose(channel, first, named)
            if self.save:
                case = open_case(Path(self.save), first, launch)
            # The command's log is named, too: once it has ended, no descriptor tells of it.
            logs = (str(self.child.log),) if self.child else (self.log,) if self.log else ()
            options = WatchOptions(
                Options(self.stacks, logs, baselines=self.baselines, reasons=self.reasons),
                self.timeout,
                self.child is not None,
                named,
            )
            watch = Watch(channel, launch, first, options, case)
            self._open_screen()
            status = self._follow(watch)
            if watch.look.case_error is not None:
                screen.note(f"hangdoc: {self.save} is incomplete: {watch.look.case_error.strerror}; the report is not")
        except target.NoLaunch as error:
            raise no_launch(error, channel) from None
        except CannotStart as error:
            raise exits.Stop(str(error), "", exits.USAGE) from None
        except ChannelError as error:
            status = self._blind(error)
        finally:
            self.voice.close()
            if case is not None:
                case.close()
            if channel is not None:
                channel.close()
        return self._stay() if status is None else status

    def _child_event(self, text: str, **data: object) -> None:
        """Tell readers of JSON lines what became of the command; at a terminal that is seen, or said in another place."""
        assert self.child is not None  # noqa: S101 - for the type checker
        if self.json:
            self.voice.events([Event("child", time.time(), text, {**data, "pid": self.child.pid})], _no_moment)

    def _tell_signals(self) -> None:
        sent = self.child.signalled if self.child is not None else []
        for number in sent[self.told :]:
            name = signal.Signals(number).name
            self._child_event(f"{name} was sent on to the command", change="signal", signal=name)
        self.told = len(sent)

    def _start(self) -> None:
        path = Path(self.log) if self.log else default_log()
        self.child = Child(self.words, path.absolute())
        text = f"started process {self.child.pid}; its output is in {self.child.log}"
        self._child_event(text, change="started", log=str(self.child.log))
        if not self.json:
            screen.note(f"hangdoc: {text}")

    def _open_screen(self) -> None:
        if not self.json and sys.stdout.isatty() and screen.colour():
            note = f"process {self.child.pid}, output in {self.child.log}" if self.child else None
            self.voice = voices.Live(note=note, verbose=self.verbose)

    def _pause(self, seconds: float) -> None:
        if self.child is not None and not self.child.ended:
            self.child.wait(seconds)
        else:
            time.sleep(seconds)

    def _follow(self, watch: Watch) -> int | None:
        """Watch to its end. The exit status; None when the command goes on and hangdoc stays as its parent."""
        try:
            for events in watch.run(self._pause):
                self._tick(watch, events)
                self._load()
                verdict = watch.judgement.verdict
                if verdict == "hung" and self.child is not None and self._new(watch):
                    self._tell(watch)
                    if self.on_hang is not OnHang.report:
                        return self._end(watch)
        except KeyboardInterrupt:
            self._tell(watch, ask=False)
            return exits.INTERRUPTED
        self._tell(watch)
        verdict = watch.judgement.verdict
        if verdict == "ready":
            self.notifier.ready()
            if self.child is not None and not self.detach:
                return None
        if self.child is not None and self.child.ended:
            return None
        if verdict in ("hung", "crashed") and self.on_hang is not OnHang.report:
            return self._end(watch)
        if self.child is None:
            return exits.exit_status(verdict, self.fail_on)
        if verdict == "ready":
            self.child.release()
            return exits.OK
        return None

    def _load(self) -> None:
        """Have in memory what only the end needs: hangdoc may be installed anew, or removed, while it watches."""
        if not self.json:
            from ..report import terminal  # noqa: F401

            if self.verbose:
                from ..report import details  # noqa: F401
        if self.on_hang is OnHang.kill:
            from ..session import ending  # noqa: F401

    def _new(self, watch: Watch) -> bool:
        now = (watch.judgement.verdict, tuple(one.member.pid for one in watch.judgement.culprits))
        new = now != self.reported
        self.reported = now
        return new

    def _tick(self, watch: Watch, events: list[Event]) -> None:
        self._tell_signals()
        if self.child is not None:
            self.voice.lines(self.child.tail.lines())
            if self.child.signalled and not self.json:  # its end was asked for: `_tell` says so
                events = [one for one in events if one.data.get("verdict") != "crashed"]
        self.voice.events(events, watch.moment)
        moves = watch.judgement.verdict == "progressing"
        due = self.textfile is not None and (self.textfile.due or any(one.event == "verdict" for one in events))
        if due or self.notifier.address:
            report = watch.report(causes=False)  # neither of them tells of causes
            self.notifier.tell(report, moves=moves)
            if due and self.textfile is not None:
                self.textfile.write(report)

    def _tell(self, watch: Watch, *, ask: bool = True) -> None:
        """Give the report to everyone who wants it."""
        if self.child is not None:
            self.voice.lines(self.child.tail.lines())
        try:
            self.report = watch.closing() if ask else watch.report()
        except ChannelError:
            self.report = watch.report()
        self.notifier.tell(self.report, moves=False)
        if self.textfile is not None:
            self.textfile.write(self.report)
            if self.textfile.error is not None:
                screen.note(f"hangdoc: {self.textfile.path} cannot be written: {self.textfile.error.strerror}")
        sent = [signal.Signals(number).name for number in self.child.signalled] if self.child is not None else []
        if sent and self.report.verdict == "crashed" and not self.json:
            self.voice.close()
            screen.note(f"hangdoc: the command ended after {' and '.join(sent)} was sent on to it")
        else:
            self.voice.report(self.report)
        if self.exec:
            wrong = run_with_report(self.exec, self.report)
            if wrong:
                screen.note(f"hangdoc: --exec {wrong}")

    def _end(self, watch: Watch) -> int:
        """What --on-hang says, and the status of the verdict."""
        if self.on_hang is OnHang.kill:
            if self.child is not None:
                self.child.end()
            from ..session.ending import end_launch

            left = end_launch(watch.diagnosis.launch)
            if left:
                screen.note(f"hangdoc: still there after SIGKILL: {', '.join(map(str, left))}")
        elif self.child is not None:
            self.child.release()
        return exits.exit_status(watch.judgement.verdict, self.fail_on)

    def _blind(self, error: ChannelError) -> int | None:
        """The agent is lost: without a command that is the end, with one the command goes on."""
        if self.child is None:
            raise unreachable(error, self.targets, self.reaching) from None
        screen.note(f"hangdoc: this machine can no longer be read ({error}); the command goes on")
        return None

    def _stay(self) -> int:
        """Stay as the parent of the command, show its lines, and give its status."""
        assert self.child is not None  # noqa: S101 - for the type checker
        voice = voices.Json() if self.json else voices.Plain()
        while not self.child.wait(_LINES_S):
            self._tell_signals()
            voice.lines(self.child.tail.lines())
        status = self.child.status()
        voice.lines(self.child.tail.lines(last=True))
        self._tell_signals()
        self._child_event(f"the command ended with status {status}", change="ended", status=status)
        if self.json and self.report is not None:
            self.voice.report(self.report)  # the last line is the report, also after further lines
        return status


def _no_moment() -> Moment:
    raise NotImplementedError
