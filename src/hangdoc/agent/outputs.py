"""Whether anything was written to the logs since they were last read, told without touching them.

A log may lie on a file system that does not answer, so that each look at it takes a disposable child. Where the members'
outputs are plain files, `pos` in their fdinfo says as much: it moves with each write through that descriptor (proc(5)),
also one that appends, and the kernel answers it from memory.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..model.ask import Ask
from ..probes.logfile import offset_key

ANYWAY_S = 10.0  # a log that something else writes, too, or that was replaced, is seen after so long
Places = Tuple[Tuple[int, str, str, int], ...]  # pid, number, target, position


class Outputs:
    """Where the outputs stood when the logs were last read, and how far those reached."""

    def __init__(self) -> None:
        self._places: Places = ()
        self._ends: Dict[str, int] = {}
        self._at = float("-inf")

    def same(self, ask: Ask, members: Mapping[int, Mapping[str, Any]], now: float) -> bool:
        """Whether the logs that are asked for hold nothing that the asker does not have."""
        if now - self._at >= ANYWAY_S or not self._ends:
            return False
        places = _places(members)
        named = {target for _, _, target, _ in places or ()}
        had = all(ask.log_offsets.get(key, -1) >= end for key, end in self._ends.items())
        return places == self._places and set(ask.logs) <= named and had

    def read(self, members: Mapping[int, Mapping[str, Any]], logs: List[Dict[str, Any]], now: float) -> None:
        """Take note of the logs that were read just now."""
        places = _places(members)
        whole = places is not None and all("size" in one and "inode" in one for one in logs)
        self._places, self._at = places or (), now
        self._ends = {offset_key(one["path"], one["inode"]): one["size"] for one in logs} if whole else {}


def _places(members: Mapping[int, Mapping[str, Any]]) -> Optional[Places]:
    """None where an output is no plain file, or where it stands could not be read."""
    found = []
    for pid, process in members.items():
        for number, fd in process.get("fds", {}).items():
            if number not in ("1", "2") or fd["target"] == "/dev/null":
                continue
            if fd["kind"] != "file" or "pos" not in fd:
                return None
            found.append((pid, number, fd["target"], fd["pos"]))
    return tuple(sorted(found))
