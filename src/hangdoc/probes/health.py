"""Ask a server's health path, in its own network namespace and past any proxy."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - connect(2) by name needs it: loaded once here, not in every disposable child
import re
import socket
import time
from typing import List, Optional, Tuple

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


def may_wait(root: str, wanted: HealthAsk) -> bool:
    """Whether asking may take a while: somebody listens there, or that cannot be told. Else it is refused at once."""
    return bool(addresses(root, wanted))


def ask(root: str, wanted: HealthAsk, deadline_s: float = 2.0) -> Health:
    """One GET on this machine, answered within the deadline or not. No redirect is followed, at most 4 kB are read.

    `detail` says why there is no status: "refused", "no answer in 2.0 s", "not HTTP", "closed without an answer",
    or why the network namespace of the process could not be entered.
    """
    began = time.monotonic()
    status: Optional[int] = None
    detail = "refused"
    for family, host in addresses(root, wanted):
        try:
            with socket_in(root, wanted.pid, family, socket.SOCK_STREAM) as link:
                status, detail = _exchange(link, host, wanted, began + deadline_s)
            break
        except ConnectionRefusedError:
            continue  # it may listen on another address
        except socket.timeout:
            detail = f"no answer in {deadline_s:.1f} s"
            break
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
    return Health(wanted.pid, wanted.port, wanted.path, status, detail, round(time.monotonic() - began, 3))


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


def _exchange(link: socket.socket, host: str, wanted: HealthAsk, deadline: float) -> Tuple[Optional[int], str]:
    """Connect, send, read the status line; every step within what is left of the deadline."""

    def left() -> float:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise socket.timeout
        return seconds

    message = request(wanted.path, host, wanted.port)
    link.settimeout(left())
    link.connect((host, wanted.port))
    link.settimeout(left())
    link.sendall(message)
    answer = b""
    while True:
        link.settimeout(left())
        part = link.recv(ANSWER_LIMIT - len(answer))
        answer += part
        told = parse(answer, ended=not part)
        if told is not None:
            return told
