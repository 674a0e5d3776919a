"""The reader of an agent's messages (agent/frames.py): pieces put together, noise between them kept apart and bounded."""

from __future__ import annotations

from ..agent.frames import LAST, MORE, PIECE

MESSAGE_LIMIT = 64 << 20  # bytes of one message; a full sample of 64 ranks with 1,000 threads each is about 30 MB
NOISE_LIMIT = 1 << 20  # bytes that are no messages, before the other side is no agent
_KEPT = 2000  # of the noise, its end
_LINE_LIMIT = PIECE + 2


class TooMuch(Exception):
    """The other side sends what no agent sends."""


class Reader:
    """Takes bytes as they come and gives whole messages. `noise` is the end of what was no message."""

    def __init__(self) -> None:
        self.noise = bytearray()
        self._noisy = 0
        self._line = bytearray()
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that end in `data`. Raises TooMuch."""
        found = []
        self._line += data
        *lines, rest = self._line.split(b"\n")
        for line in lines:
            whole = self._take(line)
            if whole is not None:
                found.append(whole)
        self._line = rest
        if len(rest) > _LINE_LIMIT and not self._mark(rest):
            self._noise(rest)
            self._line = bytearray()
        elif len(rest) > _LINE_LIMIT + NOISE_LIMIT:
            raise TooMuch("sent a line that does not end")
        return found

    @staticmethod
    def _mark(line: bytes | bytearray) -> bytes:
        """The line from its mark on, empty where it has none. JSON has no such bytes, and noise before it may lack its end."""
        at = max(line.find(LAST), line.find(MORE))
        return bytes(line[at:]) if at >= 0 else b""

    def _take(self, line: bytes | bytearray) -> bytes | None:
        piece = self._mark(line)
        if len(piece) < len(line):
            self._noise(line[: len(line) - len(piece)] + b"\n")
        if not piece:
            return None
        self._parts.append(piece[1:])
        self._size += len(piece)
        if self._size > MESSAGE_LIMIT:
            raise TooMuch(f"sent an answer of more than {MESSAGE_LIMIT >> 20} MB")
        if piece[:1] == MORE:
            return None
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole

    def _noise(self, data: bytes | bytearray) -> None:
        self._noisy += len(data)
        self.noise += data
        del self.noise[:-_KEPT]
        if self._noisy > NOISE_LIMIT:
            raise TooMuch(f"sent {self._noisy} bytes that are no answer of an agent")
