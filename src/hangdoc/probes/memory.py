"""A few words of a target's memory, read only where the read cannot wait for a file system.

A read of an absent page of a file mapping makes the reader wait for that file system while it holds the target's
mmap lock: on a dead mount that hangs a healthy target. So an address is looked up in `maps` first, and read only in
anonymous, heap, stack or shared memory; in a private file mapping (a library's data section, where static locks
live) only when `pagemap` says that its page is present and anonymous, which means already copied on write.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import struct
import sys
from typing import Dict, List, Optional, Tuple

from .procfs import PAGE, Folder

_SHARED = (b"/dev/shm/", b"/memfd:", b"/SYSV", b"/dev/zero", b"/anon_hugepage")  # prefixes of `maps`
_ANONYMOUS = (b"[heap]", b"[stack", b"[anon")
_PRESENT, _FILE_OR_SHARED = 1 << 63, 1 << 61  # bits of an entry of `pagemap`, Documentation/admin-guide/mm/pagemap.rst
_ADDRESSES = 1 << 63


Area = Tuple[int, int, str]  # first address, end, "safe" or "copied" (only where already copied on write)
Shared = Tuple[int, int, int, str]  # first address, end, offset in the object, the object as "major:minor:inode"


# A line of `maps` whose area can be written to: first address, end, "p" or "s", offset, device, inode, name.
_WRITABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw.([ps]) ([0-9a-f]+) (\S+) (\d+) *(.*)$", re.MULTILINE)


def areas(raw: bytes) -> Tuple[List[Area], List[Shared]]:
    """What of a `maps` can be written to, by address: the areas in which something may be read, and the shared mappings
    without devices."""
    found: List[Area] = []
    objects: List[Shared] = []
    for first, end, shared, offset, device, inode, name in _WRITABLE.findall(raw):
        ours = name.startswith(_SHARED)
        if ours or name.startswith(_ANONYMOUS) or (not name and inode == b"0"):
            found.append((int(first, 16), int(end, 16), "safe"))
        elif name.startswith(b"/") and shared == b"p" and not name.startswith(b"/dev/"):
            found.append((int(first, 16), int(end, 16), "copied"))
        if shared == b"s" and inode != b"0" and name and (ours or not name.startswith(b"/dev/")):
            object_ = f"{os.fsdecode(device)}:{os.fsdecode(inode)}"
            objects.append((int(first, 16), int(end, 16), int(offset, 16), object_))
    return found, objects


class Memory:
    """Memory of one process. Raises OSError when it may not be read."""

    def __init__(self, folder: Folder) -> None:
        raw = folder.read("maps")
        # The last line may be cut by the read limit: without it nothing wrong can be believed.
        self.maps = raw[: raw.rfind(b"\n") + 1]
        self.areas, self.shared = areas(self.maps)
        self.starts = [one[0] for one in self.areas]
        self.mem = os.open("mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
        self.pagemap: Optional[int] = None
        with contextlib.suppress(OSError):
            self.pagemap = os.open("pagemap", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
        self.pages: Dict[int, int] = {}  # page -> its entry of `pagemap`, for `follow`

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self.mem)
        if self.pagemap is not None:
            os.close(self.pagemap)

    def kind(self, address: int, size: int) -> Optional[str]:
        """Kind of the area that holds all of these bytes, None when there is none that may be read."""
        place = bisect.bisect_right(self.starts, address) - 1
        if place < 0 or address < 0:
            return None
        first, end, kind = self.areas[place]
        return kind if first <= address and address + size <= end else None

    def room(self, address: int) -> int:
        """Bytes from an address to the end of its area, 0 when there is none that may be read."""
        place = bisect.bisect_right(self.starts, address) - 1
        return max(0, self.areas[place][1] - address) if place >= 0 else 0

    def _copied(self, address: int, size: int) -> bool:
        if self.pagemap is None:
            return False
        first, last = address // PAGE, (address + size - 1) // PAGE
        raw = os.pread(self.pagemap, 8 * (last - first + 1), 8 * first)
        entries = struct.unpack(f"={len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
        return len(entries) == last - first + 1 and all(one & _PRESENT and not one & _FILE_OR_SHARED for one in entries)

    def read(self, address: int, size: int) -> Optional[bytes]:
        """Bytes at an address that a blocked call names, None where they must not or cannot be read."""
        if not 0 < address < _ADDRESSES - size:
            return None
        kind = self.kind(address, size)
        try:
            if kind is None or (kind == "copied" and not self._copied(address, size)):
                return None
            raw = os.pread(self.mem, size, address)
        except (OSError, OverflowError):
            return None
        return raw if len(raw) == size else None

    def follow(self, address: int, size: int) -> Optional[bytes]:
        """Bytes at an address that was found in memory, as a pointer: only of pages that are there already.

        No blocked call names them, so nothing says that they were ever touched; `pagemap` does. At most two pages.
        """
        if not 0 < address < _ADDRESSES - size or self.pagemap is None or address % 8:
            return None
        kind = self.kind(address, size)
        if kind is None:
            return None
        try:
            for page in {address // PAGE, (address + size - 1) // PAGE}:
                if page not in self.pages:
                    self.pages[page] = int.from_bytes(os.pread(self.pagemap, 8, 8 * page), sys.byteorder)
                entry = self.pages[page]
                if not entry & _PRESENT or (kind == "copied" and entry & _FILE_OR_SHARED):
                    return None
            raw = os.pread(self.mem, size, address)
        except (OSError, OverflowError):
            return None
        return raw if len(raw) == size else None

    def object_at(self, address: int) -> Optional[str]:
        """The object behind a shared mapping as "major:minor:inode:offset", the same in every process that maps it."""
        for first, end, offset, object_ in self.shared:
            if first <= address < end:
                return f"{object_}:{address - first + offset}"
        return None

    def text(self, address: int, limit: int = 4096) -> Optional[bytes]:
        """A string up to its NUL, never beyond the page in which the last wanted byte lies."""
        found = b""
        while len(found) < limit:
            here = address + len(found)
            piece = self.read(here, min(PAGE - here % PAGE, limit - len(found)))
            if piece is None:
                return None
            head, nul, _ = piece.partition(b"\0")
            found += head
            if nul:
                return found
        return found
