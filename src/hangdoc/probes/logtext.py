"""Log bytes to text: which pieces to read, container records unwrapped, bytes that are no text escaped. Pure."""

from __future__ import annotations

import json
import re
from typing import Dict, List, Tuple

CRI = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::[^ ]*)? ?")
# What `kubectl logs --timestamps` and `docker logs --timestamps` put before each line (RFC 3339 with nanoseconds;
# programs themselves stamp with no more than six digits).
STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7,9}(?:Z|[+-]\d\d:\d\d) ")
LINE_LIMIT = 1 << 16  # characters of one line that are kept
_LINE_ENDS = re.compile("([\r\n])")
NULS = re.compile(rb"\0{2,}")


def plan(start: int, size: int, head: int, tail: int) -> List[Tuple[int, int]]:
    """(offset, length) of the pieces of `start`..`size` to read: all of it when that is no more than head plus tail."""
    if size <= start:
        return []
    if size - start <= head + tail:
        return [(start, size - start)]
    return [piece for piece in ((start, head), (size - tail, tail)) if piece[1] > 0]


def whole_characters(data: bytes) -> bytes:
    """`data` without a UTF-8 character that was cut off at its end (its other bytes come with the next piece)."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        need = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return data[:-back] if need > back else data
    return data


def cut(data: bytes, *, from_line: bool, to_line: bool) -> Tuple[int, bytes]:
    """(bytes dropped in front, rest): begins after the first line end, ends with the last one, where there is one."""
    front = data.find(b"\n") + 1 if from_line else 0
    back = data.rfind(b"\n") + 1 if to_line else len(data)
    if back <= front:
        back = len(data)
    return front, data[front:back]


def decode(data: bytes) -> str:
    """Text of a log: undecodable bytes and NUL as \\xNN, a run of NULs (the hole that a truncation leaves) as one."""
    return NULS.sub(b"\0", data).replace(b"\0", b"\\x00").decode("utf-8", "backslashreplace")


def clip(text: str, limit: int = LINE_LIMIT) -> str:
    """The text with the middle of lines longer than `limit` left out; a carriage return ends a line, too."""
    if len(text) <= limit:
        return text
    lines = _LINE_ENDS.split(text)
    for at, line in enumerate(lines):
        if len(line) > limit:
            half = limit // 2
            lines[at] = f"{line[:half]}…({len(line) - 2 * half} characters left out)…{line[-half:]}"
    return "".join(lines)


def finished(data: bytes) -> bytes:
    """`data` without a last line that is not finished, where that is short enough to be one that is being written."""
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    return data if len(data) - end > LINE_LIMIT else data[:end]


def wrapping(text: str) -> str:
    """How the lines of a container's log are wrapped: "cri", "json", "stamped" or "", judged by most of its first lines."""
    lines = [line for line in text[: 1 << 17].split("\n")[:5] if line][:4]
    if 2 * sum(1 for line in lines if CRI.match(line)) > len(lines):
        return "cri"
    if 2 * sum(1 for line in lines if line.startswith('{"log":"')) > len(lines):
        return "json"
    if 2 * sum(1 for line in lines if STAMPED.match(line)) > len(lines):
        return "stamped"
    return ""


def _unwrap_cri(lines: List[str]) -> str:
    parts: Dict[str, List[str]] = {"stdout": [], "stderr": []}  # a long line comes in pieces, P P F, of one stream
    out: List[str] = []
    for line in lines:
        found = CRI.match(line)
        if not found:
            out.append(line + "\n")
            continue
        stream, flag = found.groups()
        parts[stream].append(line[found.end() :])
        if flag == "F":
            out.append("".join(parts[stream]) + "\n")
            parts[stream] = []
    out.extend("".join(rest) for rest in parts.values() if rest)
    return "".join(out)


def _unwrap_json(lines: List[str]) -> str:
    out = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        inner = record.get("log") if isinstance(record, dict) else None
        out.append(inner if isinstance(inner, str) else line + "\n")  # the inner text has its own line end
    return "".join(out)


def unwrap(text: str) -> str:
    """What the program itself wrote: CRI and Docker json-file records to their text, other text as it is."""
    kind = wrapping(text)
    if not kind:
        return text
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if kind == "stamped":
        return "".join(STAMPED.sub("", line, count=1) + "\n" for line in lines)
    return _unwrap_cri(lines) if kind == "cri" else _unwrap_json(lines)
