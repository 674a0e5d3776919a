"""A py-spy that is sent to a host that has none: unpacked into a memfd, run from there, gone with the agent.

Orders: `{"tool": BASE64}` brings a piece of the zlib stream, `{"tool_size": N}` ends it; only a whole one is used.
"""

from __future__ import annotations

import base64
import contextlib
import os
import zlib
from typing import Any, Mapping, Optional

from ..model.ask import Ask
from ..model.frozen import replace

LIMIT = 64 << 20  # bytes of the program


class Tool:
    """What was sent so far, and its path once it is whole."""

    def __init__(self) -> None:
        self.path: Optional[str] = None
        self._fd: Optional[int] = None
        self._size = 0
        self._unpack = zlib.decompressobj()

    def take(self, order: Mapping[str, Any]) -> None:
        """One order. Raises ValueError or OSError where it cannot be followed; the tool is then left out."""
        try:
            if "tool" in order:
                self._write(self._unpack.decompress(base64.b64decode(order["tool"]), LIMIT))
            elif "tool_size" in order and self._fd is not None:
                self.path = f"/proc/{os.getpid()}/fd/{self._fd}" if self._size == order["tool_size"] else None
        except (ValueError, TypeError, OSError, zlib.error, AttributeError) as error:  # AttributeError: no memfd here
            self._drop()
            raise ValueError(f"py-spy could not be taken: {error}") from error

    def lent(self, ask: Ask) -> Ask:
        """The question with this tool, where it names none."""
        return replace(ask, pyspy=self.path) if self.path is not None and ask.pyspy is None else ask

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            self._fd = os.memfd_create("py-spy")
        self._size += len(data)
        if self._size > LIMIT:
            raise ValueError(f"more than {LIMIT} bytes")
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _drop(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd, self._size, self._unpack = None, 0, zlib.decompressobj()
