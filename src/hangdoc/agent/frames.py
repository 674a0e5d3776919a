"""Messages on a stream that others may write on, too: a login banner, a stray print of a start-up file.

A message goes out as pieces, each a line that holds no other line end. RS (0x1e) begins the last piece of a message, US
(0x1f) one that has a successor; JSON has neither of them inside. What is not marked is noise.
"""

from __future__ import annotations

LAST, MORE = b"\x1e", b"\x1f"
PIECE = 48 << 10  # bytes of a piece: a line stays below 64 kB


def framed(message: bytes) -> bytes:
    """The lines of one message, which holds no line end itself."""
    starts = range(0, max(len(message), 1), PIECE)
    lines = [MORE + message[at : at + PIECE] + b"\n" for at in starts]
    lines[-1] = LAST + lines[-1][1:]
    return b"".join(lines)
