"""A child that answers whole questions by itself, for as long as nothing blocks.

A fork for each risky read costs more than the read, and most of those who are watched have nothing that blocks. So a
question that is one of many (`Ask.together`) goes to one standing child, which forks only for what lasts (`Nursery.run_all`).
It is disposable as a whole: it holds nothing but its two pipes, gives signs of life as it goes on from read to read, and is
killed when it gives none and spends no CPU time either, never waited for. The same question is then answered with a child for
each risky read, which finds out what it is that blocks; and so are the next ones, for `AGAIN_S`, or for ever where the standing
child could not be ended. An error in it is no answer either: nobody knows in what state that left it.

It reads questions as JSON lines. It writes `.` as a sign of life, and each answer as one line.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import time
from typing import Any, Iterable, List, Optional, Set, Tuple

from ..model.ask import Ask
from ..model.frozen import replace
from ..model.plain import to_plain
from ..probes import processes
from . import wire
from .disposable import seal
from .frames import lines
from .isolate import SIGN_S, Hangup, Nursery
from .tick import Ticker

PATIENCE_S = 1.0  # without a sign of life; the rest of a question's time is enough to answer it in the other way
LATE_S = 0.5  # beyond a question's time: on a loaded machine an answer takes a while to be written
AGAIN_S = 30.0
_LEAST_S = 0.5  # for an answer in the other way, however long it took to find out that there is none in this
_KEY = "standing"  # what it is called among the children that were ended
_ERROR = b'{"error"'


def answered(ticker: Ticker, ask: Ask) -> bytes:
    """The message that answers a question, whatever goes wrong. Raises only Hangup."""
    try:
        return line({"sample": ticker.answer(ask), "id": ask.id})
    except Hangup:
        raise
    except Exception as error:  # said to the caller, who may ask something else
        return line({"error": f"{type(error).__name__}: {error}"[:500], "id": ask.id})


def line(value: Any) -> bytes:
    """One line of JSON, without its end."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _forget_signals() -> None:
    """What the parent does about signals is not for its child to do: it might send them on to others."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _works(pid: int, spent: float) -> Tuple[bool, float]:
    """(whether a process has spent more CPU time than `spent`, its CPU time). One that waits for a core works as well."""
    stat = processes.stat_of("/proc", pid)
    now = 0.0 if stat is None else stat.utime + stat.stime
    return now > spent or (stat is not None and stat.state == "R"), now


class Standing:
    """Starts the child when it is first wanted, and ends it when it gives no sign of life."""

    def __init__(self, nursery: Nursery, root: str = "/proc", above: Iterable[int] = ()) -> None:
        """`above`: processes that belong to the agent, too, so that they are no part of what is looked at."""
        self.nursery = nursery
        self.above = set(above)
        self.root = root
        self.pid: Optional[int] = None
        self._reading = self._writing = -1
        self._again = float("-inf")

    def answer(self, ask: Ask) -> Optional[bytes]:
        """Its answer as one line; None when there is none, and the question has to be answered in the other way."""
        pid = self.pid or self._start()
        if pid is None:
            return None
        found = None
        try:
            self._send(line(to_plain(ask)) + b"\n")
            found = self._wait(pid, time.monotonic() + ask.deadline_s + LATE_S)
        except OSError:
            pass
        finally:  # also when a signal ends the wait: its late answer must not be taken for that of the next question
            if found is None or found.startswith(_ERROR):
                self.end()
                found = None
        return found

    @staticmethod
    def left(ask: Ask, since: float) -> Ask:
        """The question, asked at `since` (CLOCK_MONOTONIC), as it is to be answered in the other way."""
        left = ask.deadline_s - (time.monotonic() - since)
        return replace(ask, together=False, deadline_s=max(left, _LEAST_S))

    def end(self) -> None:
        """End the child."""
        if self.pid is None:
            return
        os.close(self._reading)
        os.close(self._writing)
        self.nursery.kept.discard(self.pid)
        self.nursery.dispose(self.pid, _KEY)
        self.pid, self._again = None, time.monotonic() + AGAIN_S

    @property
    def allowed(self) -> bool:
        """Whether one may be started: not so soon after the last one, nor ever beside one that cannot be ended."""
        return time.monotonic() >= self._again and not self.nursery.stuck(_KEY)

    def _start(self) -> Optional[int]:
        if not self.allowed:
            return None
        fds: List[int] = []  # reading and writing end of the questions, then of the answers
        parent = os.getpid()
        try:
            fds += os.pipe2(os.O_CLOEXEC)
            fds += os.pipe2(os.O_CLOEXEC)
            # One that comes before the child has forgotten them would be dealt with by both.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                pid = os.fork()
                if pid == 0:
                    self._live(fds[0], fds[3], parent, before)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except OSError:
            for fd in fds:
                os.close(fd)
            self._again = time.monotonic() + AGAIN_S
            return None
        os.close(fds[0])
        os.close(fds[3])
        self.pid, self._reading, self._writing = pid, fds[2], fds[1]
        self.nursery.kept.add(pid)
        os.set_blocking(self._writing, False)
        return pid

    def _send(self, data: bytes) -> None:
        end = time.monotonic() + PATIENCE_S
        poller = select.poll()
        poller.register(self._writing, select.POLLOUT)
        view = memoryview(data)
        while view:
            if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
                raise TimeoutError
            view = view[os.write(self._writing, view) :]

    def _wait(self, pid: int, end: float) -> Optional[bytes]:
        poller = select.poll()
        poller.register(self._reading, select.POLLIN)
        if self.nursery.hangup_fd is not None:
            poller.register(self.nursery.hangup_fd, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
        answer = bytearray()
        spent = -1.0  # its CPU time when half of the patience was over
        while not answer.endswith(b"\n"):
            until = min(end, time.monotonic() + PATIENCE_S / 2)
            ready = poller.poll(max(0.0, until - time.monotonic()) * 1000)
            if not ready:
                works, spent = _works(pid, spent)
                if not works or time.monotonic() >= end:
                    return None
                continue
            spent = -1.0
            if any(fd != self._reading for fd, _ in ready):
                raise Hangup
            raw = os.read(self._reading, 1 << 16)
            if not raw:
                return None
            answer += raw if answer else raw.lstrip(b".")
        return bytes(answer[:-1])

    def _live(self, questions: int, answers: int, parent: int, unblocked: Set[Any]) -> None:
        """The life of the child; never returns."""
        status = 1
        try:
            seal({questions, answers, *self.nursery.keep})
            if os.getppid() != parent:
                os._exit(1)  # the parent died before its death would have been told
            _forget_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            gc.freeze()
            said = 0.0

            def sign() -> None:
                nonlocal said
                now = time.monotonic()
                if now - said >= SIGN_S:
                    said = now
                    os.write(answers, b".")

            ticker = Ticker(Nursery(self.nursery.keep, hangup_fd=questions, sign=sign), self.root)
            ticker.above |= self.above
            for question in lines(questions, ticker.deaths.wait_for):
                said = time.monotonic()  # whoever asked has only begun to wait
                with contextlib.suppress(ChildProcessError):  # what a probe left to whoever reaps
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
                view = memoryview(answered(ticker, wire.ask(json.loads(question))) + b"\n")
                while view:
                    view = view[os.write(answers, view) :]
            status = 0
        finally:
            os._exit(status)
