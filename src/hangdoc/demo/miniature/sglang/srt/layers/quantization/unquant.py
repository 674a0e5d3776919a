"""Processing of weights after loading, and the defect that the demo plants in it."""

from __future__ import annotations

import ctypes
import os
import time
import zlib
from pathlib import Path

_libc = ctypes.CDLL(None)
# Zero bytes are an initialised pthread_mutex_t of the normal kind; it has 40 bytes on x86-64 and 48 on AArch64.
_table_lock = ctypes.create_string_buffer(64)


class UnquantizedLinearMethod:
    """Repacks one weight at a time, under a native lock."""

    def __init__(self, rank: int) -> None:
        self.broken = os.environ.get("MINIATURE_HANG") == str(rank)

    def process_weights_after_loading(self, weight: bytes) -> None:
        """Repack one weight."""
        zlib.crc32(weight)
        time.sleep(0.1)
        if self.broken:
            self._repack_twice()

    def _repack_twice(self) -> None:
        # The defect: a function that holds the lock calls one that takes it again. Nobody else can release it.
        _libc.pthread_mutex_lock(_table_lock)
        stamp = os.environ.get("MINIATURE_STAMP")
        if stamp:
            Path(stamp).write_text(f"{os.getpid()}\n")
        _libc.pthread_mutex_lock(_table_lock)
