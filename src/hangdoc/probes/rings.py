"""Rings of chunks in shared memory through which vLLM and SGLang broadcast: which reader has not read.

The writer blocks until every reader has read the chunk that it wants to write next. So the reader with as many unread
chunks as there are chunks is the one that everybody waits for. A segment is taken for such a ring only when its size is
that of a known form and each of its flags is 0 or 1, in two reads.

Layout: class ShmRingBuffer in `vllm/distributed/device_communicators/shm_broadcast.py` (read in vLLM 0.32.0) and in
`sglang/srt/distributed/device_communicators/shm_broadcast.py` (SGLang 0.5.23, the same): `chunks` pieces of data, then
for each chunk one byte "written" and one byte "read" for each reader.
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Mapping, Optional, Tuple

from ..model.frozen import dataclass, replace
from ..model.sample import Process, Ring, Unseen
from .reading import open_regular, reason

# Names that multiprocessing.shared_memory gives, and SGLang; an unlinked segment is over.
_SEGMENT = re.compile(r"/dev/shm/(psm_[0-9a-f]{4,32}|sgl_shm_mq_[0-9a-f_]{1,64})\Z")  # noqa: S108 - the text of a link
_LIMIT = 64  # segments
_READERS = 1024


@dataclass(frozen=True)
class Form:
    """One form of the ring: how many chunks it has, and what the size of a chunk is a multiple of."""

    name: str
    chunks: int
    granule: int


# MessageQueue(…) has 10 chunks of 24 MiB, or of VLLM_MQ_MAX_CHUNK_BYTES_MB MiB; the broadcaster of a process group has
# 6 of 4 MiB, in both engines.
FORMS = (Form("queue-10", 10, 1 << 20), Form("broadcaster-6", 6, 1 << 20))


def fit(size: int, form: Form) -> Optional[Tuple[int, int]]:
    """(bytes of a chunk, readers) when a segment of `size` bytes is of a form: size = (bytes + 1 + readers) x chunks."""
    each, rest = divmod(size, form.chunks)
    chunk, flags = each // form.granule * form.granule, each % form.granule
    readers = flags - 1
    return (chunk, readers) if not rest and chunk and 1 <= readers <= _READERS else None


def unread(flags: bytes, readers: int) -> Optional[Tuple[int, ...]]:
    """Chunks written and not yet read, by reader; None when the bytes are no flags."""
    if not flags or len(flags) % (1 + readers) or any(one > 1 for one in flags):
        return None
    rows = [flags[place : place + 1 + readers] for place in range(0, len(flags), 1 + readers)]
    return tuple(sum(1 for row in rows if row[0] and not row[1 + reader]) for reader in range(readers))


def segments(processes: Mapping[int, Process]) -> Dict[str, List[Tuple[int, int]]]:
    """Name of a segment -> (pid, fd) of the members that have it open."""
    found: Dict[str, List[Tuple[int, int]]] = {}
    for pid, process in sorted(processes.items()):
        for number, fd in sorted((process.fds or {}).items()):
            name = _SEGMENT.match(fd.target)
            if name:
                found.setdefault(name.group(1), []).append((pid, number))
    return found


def read(root: str, processes: Mapping[int, Process], unseen: List[Unseen]) -> List[Ring]:
    """The rings that members have open."""
    rings = []
    for name, holders in sorted(segments(processes).items())[:_LIMIT]:
        pid, number = holders[0]
        try:
            fd = open_regular(f"{root}/{pid}/fd/{number}")
        except OSError as error:
            unseen.append(Unseen("fds", reason(error), f"shared memory {name}: {error.strerror}", pid))
            continue
        try:
            ring = _ring(fd, name)
        except OSError:
            continue
        finally:
            os.close(fd)
        if ring is not None:
            rings.append(replace(ring, pids=tuple(sorted({one for one, _ in holders}))))
    return rings


def _ring(fd: int, name: str) -> Optional[Ring]:
    size = os.fstat(fd).st_size
    for form in FORMS:
        fitting = fit(size, form)
        if fitting is None:
            continue
        chunk, readers = fitting
        length = form.chunks * (1 + readers)
        first = os.pread(fd, length, chunk * form.chunks)
        counts = unread(first, readers)
        if counts is not None and len(first) == length and os.pread(fd, length, chunk * form.chunks) == first:
            return Ring(name, form.name, form.chunks, chunk, counts)
    return None
