"""Ask a server's health path, in its own network namespace and past any proxy."""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import time
from typing import Generator, List, Optional, Tuple

from ..model.ask import HealthAsk
from ..model.sample import Health
from . import sockets
from .namespaces import socket_in

LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?\r?\n")
ANSWER_LIMIT = 4096
ADDRESS_LIMIT = 4


def addresses(root: str, wanted: HealthAsk) -> List[Tuple[socket.AddressFamily, str]]:
    """Where to ask: both loopbacks, then the addresses that somebody listens on at that port; nowhere when nobody does.

    A server that was given a `--host` of its own listens there only; the kernel keeps such a request on this machine.
    """
    try:
        rows = sockets.listeners(root, wanted.pid, wanted.port)
    except OSError:
        return list(LOOPBACKS)
    hosts = dict.fromkeys((row.family, row.local.rpartition(":")[0].strip("[]")) for row in rows)
    found = list(LOOPBACKS) if rows else []
    for _, host in list(hosts)[:ADDRESS_LIMIT]:
        if host not in ("0.0.0.0", "::", "127.0.0.1", "::1"):  # noqa: S104 - compared, not bound
            found.append((socket.AF_INET6 if ":" in host else socket.AF_INET, host))
    return found


class Question:
    """One GET on this machine. No redirect is followed, at most 4 kB are read.

    It goes on from where it stopped, in a forked child too, which shares the connection: most servers answer at once, and
    only for the others is it worth to have a child that waits.
    """

    def __init__(self, root: str, wanted: HealthAsk) -> None:
        self.root, self.wanted = root, wanted
        self._began = 0.0
        self._steps = self._asked()
        self._until: Optional[Tuple[int, int]] = None  # descriptor and event of poll(2) that it goes on with
        self._answer: Optional[Health] = None

    def go_on(self, end: float) -> Optional[Health]:
        """The answer; None when there is none until `end` (CLOCK_MONOTONIC). `detail` says why there is no status: "refused",
        "not HTTP", "closed without an answer", or why the network namespace of the process could not be entered."""
        while self._answer is None:
            if self._until is not None and not _ready(*self._until, end):
                return None
            try:
                self._until = next(self._steps)
            except StopIteration as done:
                self._answer = done.value
            except Exception:
                self._steps, self._until = self._asked(), None
                raise
        return self._answer

    def answer(self, deadline_s: float) -> Health:
        """The answer, or that there was none within so many seconds from now."""
        found = self.go_on(time.monotonic() + deadline_s)
        return found or self._told(None, f"no answer in {deadline_s:.1f} s")

    @property
    def fileno(self) -> int:
        """The connection that it waits for; -1 when it does not."""
        return -1 if self._until is None else self._until[0]

    def close(self) -> None:
        """Give up."""
        self._steps.close()

    def _told(self, status: Optional[int], detail: str) -> Health:
        seconds = round(time.monotonic() - self._began, 3)
        return Health(self.wanted.pid, self.wanted.port, self.wanted.path, status, detail, seconds)

    def _asked(self) -> Generator[Tuple[int, int], None, Health]:
        self._began = time.monotonic()
        status: Optional[int] = None
        detail = "refused"
        for family, host in addresses(self.root, self.wanted):
            try:
                with socket_in(self.root, self.wanted.pid, family, socket.SOCK_STREAM) as link:
                    status, detail = yield from _exchange(link, host, self.wanted)
                break
            except ConnectionRefusedError:
                continue  # it may listen on another address
            except (ConnectionResetError, BrokenPipeError):
                detail = "closed without an answer"
                break
            except PermissionError as error:
                detail = f"its network namespace may not be entered: {error.strerror}"
                break
            except (FileNotFoundError, ProcessLookupError):
                detail = "the process is gone"
                break
            except (OSError, ValueError, AttributeError) as error:
                if family == socket.AF_INET6:
                    continue  # no IPv6 here
                detail = str(error)
                break
        return self._told(status, detail)


def _ready(fd: int, event: int, end: float) -> bool:
    """Whether poll(2) tells of an event before `end`."""
    poller = select.poll()
    poller.register(fd, event)
    return bool(poller.poll(max(0.0, end - time.monotonic()) * 1000))


def request(path: str, host: str, port: int) -> bytes:
    """The request. Raises ValueError for a path that could smuggle a second line."""
    if not path.startswith("/") or any(ord(char) <= 0x20 or ord(char) >= 0x7F for char in path):
        raise ValueError(path)
    shown = f"[{host}]" if ":" in host else host
    lines = (f"GET {path} HTTP/1.1", f"Host: {shown}:{port}", "User-Agent: hangdoc", "Accept: */*", "Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def parse(answer: bytes, *, ended: bool) -> Optional[Tuple[Optional[int], str]]:
    """(status, detail) of what came so far; None when more is needed to tell. Pure."""
    found = STATUS.match(answer)
    if found:
        return int(found.group(1)), ""
    if answer[:1] == b"\x15":
        return None, "not HTTP (TLS?)"  # a TLS alert record
    if not b"HTTP/1.".startswith(answer[:7]) or b"\n" in answer or len(answer) >= ANSWER_LIMIT:
        return None, "not HTTP"
    if ended:
        return None, "not HTTP" if answer else "closed without an answer"
    return None


def _exchange(
    link: socket.socket, host: str, wanted: HealthAsk
) -> Generator[Tuple[int, int], None, Tuple[Optional[int], str]]:
    """Connect, send, read the status line; gives what to wait for where one of them is not done at once."""
    left = memoryview(request(wanted.path, host, wanted.port))
    link.setblocking(False)
    code = link.connect_ex((host, wanted.port))
    if code == errno.EINPROGRESS:
        yield link.fileno(), select.POLLOUT
        code = link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    while left:
        try:
            left = left[link.send(left) :]
        except BlockingIOError:
            yield link.fileno(), select.POLLOUT
    answer = b""
    while True:
        try:
            part = link.recv(ANSWER_LIMIT - len(answer))
        except BlockingIOError:
            yield link.fileno(), select.POLLIN
            continue
        answer += part
        told = parse(answer, ended=not part)
        if told is not None:
            return told
