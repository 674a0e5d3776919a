"""Questions, each a line; and messages on a stream that others may write on, too: a login banner, a print of a start-up file.

A message goes out as pieces, each a line that holds no other line end. RS (0x1e) begins the last piece of a message, US
(0x1f) one that has a successor; JSON has neither of them inside. What is not marked is noise.
"""

from __future__ import annotations

import os
from typing import Callable, Iterator

LAST, MORE = b"\x1e", b"\x1f"
PIECE = 48 << 10  # bytes of a piece: a line stays below 64 kB
_LINE_LIMIT = 4 << 20  # bytes of one question


def framed(message: bytes) -> bytes:
    """The lines of one message, which holds no line end itself."""
    starts = range(0, max(len(message), 1), PIECE)
    lines = [MORE + message[at : at + PIECE] + b"\n" for at in starts]
    lines[-1] = LAST + lines[-1][1:]
    return b"".join(lines)


def lines(fd: int, wait: Callable[[int], bool] = lambda _: True) -> Iterator[bytes]:
    """Lines of a descriptor until its end; a line that is too long ends it too.

    `wait` is called before each read; when it gives False, nothing came for too long, and that is the end, too.
    """
    buffer = b""
    while len(buffer) <= _LINE_LIMIT and wait(fd):
        raw = os.read(fd, 1 << 16)
        if not raw:
            return
        *whole, buffer = (buffer + raw).split(b"\n")
        yield from whole
