"""The py-spy that came with hangdoc, ready to be sent to a host that has none and runs the same kind of machine."""

from __future__ import annotations

import base64
import shutil
import struct
import sys
import zlib
from pathlib import Path

import msgspec

_PIECE = 48 << 10  # characters of a piece
# e_machine of an ELF file (elf.h) by the name that uname gives the machine
_MACHINES = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}


def find_pyspy() -> str | None:
    """The py-spy that came with hangdoc, else the one on the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


class Tool:
    """Packed once, however many hosts want it."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or find_pyspy()
        self._machines: tuple[str, ...] | None = None
        self._lines: list[bytes] = []

    def orders(self, machine: str) -> list[bytes]:
        """The lines that bring it to an agent on such a machine (uname -m); none where it would not run there."""
        if self._machines is None:
            self._machines = ()
            self._pack()
        return self._lines if machine in self._machines else []

    def _pack(self) -> None:
        try:
            data = Path(self._path).read_bytes() if self._path else b""
        except OSError:
            return
        if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little end first; a script or another system's program is none
            return
        (number,) = struct.unpack_from("<H", data, 18)
        self._machines = _MACHINES.get(number, ())
        text = base64.b64encode(zlib.compress(data, 6)).decode()
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        orders: list[dict[str, object]] = [{"tool": piece} for piece in pieces]
        orders.append({"tool_size": len(data)})
        self._lines = [msgspec.json.encode({"order": order}) + b"\n" for order in orders]
