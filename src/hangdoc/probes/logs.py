"""Logs behind fd 1 and 2 of the members: found, followed through tee and container runtimes, read from an offset."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Optional, Tuple

from ..model.frozen import dataclass, replace
from ..model.sample import Fd, Log, Process, Unseen
from ..model.words import LogVia
from . import logfile, mounts, readers, redact
from .reading import NotRegular, below, open_regular, reason, text_or_none

COUNT_BUDGET_S = 0.7  # counting the lines of a large file, on a first look
COUNT_AGAIN_SIZE = 8 << 20  # on later looks only files up to this size are counted again, which takes 4 ms
DELETED = " (deleted)"


@dataclass(frozen=True)
class Source:
    """Something that the members write to, and how to open it when it is a file."""

    path: str  # text of the link, as its process sees it
    via: LogVia
    pids: Tuple[int, ...] = ()
    opener: Optional[int] = None  # the process through whose root it is opened; None: our own
    fd: Optional[int] = None  # its descriptor there
    reader: Optional[int] = None
    note: str = ""
    inode: Optional[int] = None  # of the file, where the descriptor's table gave it


def read(
    root: str,
    members: Dict[int, Process],
    extra: Tuple[str, ...],
    offsets: Dict[str, int],
    unseen: List[Unseen],
    first_head: int = 1 << 20,
    first_tail: int = 3 << 20,
) -> List[Log]:
    """Logs of the members (their `fds` 1 and 2 must be filled) and of `extra`, with the text after `offsets`.

    A first look takes the whole file when it is no longer than head plus tail, else both ends. A file that is shorter
    than its offset is read from its start, and its note says "truncated"; one whose key in `offsets` carries another
    inode (`logfile.offset_key`) says "rotated". Lines of a file larger than 8 MB are counted on the first look only:
    add the line ends of what follows. What is no file is a `Log` without text: a terminal, a socket, a pipe.
    """
    sources = outputs(members)
    opened: List[Tuple[Source, int]] = []
    rest: List[Source] = []
    try:
        files = [one for one in sources if one.via in ("file", "deleted")]
        rest = [one for one in sources if one.via not in ("file", "deleted")]
        rest += _open(root, files, opened, unseen)
        piped, rest = _behind_pipes(root, members, rest)
        rest += _open(root, piped + [Source(path, "option") for path in extra], opened, unseen)
        logs = _read_all(members, opened, offsets, (first_head, first_tail))
    finally:
        for _, fd in opened:
            os.close(fd)
    logs += [Log(one.path, one.via, one.pids, one.reader, note=_note(members, one)) for one in rest]
    if not logs and any(process.fds for process in members.values()):
        logs = [Log("", "none", tuple(sorted(members)), note="standard output and error are closed")]
    elif not logs and members:
        said = "where output goes may not be read; name the log: --log FILE, or --log-from COMMAND"
        unseen.append(Unseen("logs", "denied", said))
    return logs


def outputs(members: Dict[int, Process]) -> List[Source]:
    """What fd 1 and 2 of the members are, each thing once, with those that write to it. Pure."""
    found: Dict[Tuple[Optional[int], str], Source] = {}
    for pid, process in sorted(members.items()):
        for number in (1, 2):
            fd = (process.fds or {}).get(number)
            if fd is None:
                continue
            via = _via(fd)
            # the same path is another file in another mount namespace
            key = (process.mnt_ns if via in ("file", "deleted") else None, fd.target)
            known = found.get(key)
            if known is None:
                found[key] = Source(fd.target, via, (pid,), pid, number, inode=fd.inode)
            elif pid not in known.pids:
                found[key] = replace(known, pids=(*known.pids, pid))
    return list(found.values())


def _via(fd: Fd) -> LogVia:
    if fd.target.startswith("/dev/null"):
        return "null"
    kinds: Dict[str, LogVia] = {"pipe": "pipe", "fifo": "pipe", "terminal": "terminal", "socket": "socket"}
    if fd.kind in kinds:
        return kinds[fd.kind]
    if fd.target.startswith("/") and fd.kind in ("file", "memfd", "other"):
        return "deleted" if fd.target.endswith(DELETED) else "file"
    return "none"


def _open(root: str, sources: Iterable[Source], opened: List[Tuple[Source, int]], unseen: List[Unseen]) -> List[Source]:
    """Open what is a regular file into `opened`; give back what is not, or could not be opened."""
    others = []
    sources = list(sources)
    silent = _on_dead_mounts(root, sources)
    for source in sources:
        if source in silent:
            unseen.append(Unseen("logs", "timed-out", f"{source.path}: its file system does not answer"))
            others.append(replace(source, note="its file system does not answer"))
            continue
        try:
            opened.append((source, _open_one(root, source)))
        except NotRegular as error:
            if source.via == "option":
                unseen.append(Unseen("logs", "unsupported", f"{source.path}: not a regular file"))
            others.append(replace(source, via="pipe" if error.fifo else "none", note="not a regular file"))
        except OSError as error:
            # `gone` is a word for processes: a file that was named and is not there is a failure to be told
            missing = source.via == "option" and isinstance(error, FileNotFoundError)
            why = "failed" if missing else reason(error)
            unseen.append(Unseen("logs", why, f"{source.path}: {error.strerror}", source.opener))
            others.append(replace(source, note=f"cannot be read: {error.strerror}"))
    return others


def _on_dead_mounts(root: str, sources: List[Source]) -> List[Source]:
    by_opener: Dict[Optional[int], List[Source]] = {}
    for one in sources:
        by_opener.setdefault(one.opener, []).append(one)
    silent = []
    for opener, theirs in by_opener.items():
        dead = mounts.dead_below(root, opener or os.getpid(), [one.path for one in theirs])
        silent += [one for one in theirs if one.path in dead]
    return silent


def _open_one(root: str, source: Source) -> int:
    """By path first, by descriptor when it has no name any more or the name is another file's."""
    if source.opener is None:
        return open_regular(source.path)
    link = f"{root}/{source.opener}/fd/{source.fd}"
    if source.via == "deleted" or source.path.endswith(DELETED):
        return open_regular(link)
    try:
        found = open_regular(below(root, source.opener, source.path))
    except FileNotFoundError:
        return open_regular(link)
    if source.inode in (None, os.fstat(found).st_ino):
        return found
    os.close(found)
    return open_regular(link)


def _behind_pipes(root: str, members: Dict[int, Process], rest: List[Source]) -> Tuple[List[Source], List[Source]]:
    """(files that the pipes and terminals among `rest` end in, what stays without a file)."""
    pipes = [one for one in rest if one.via == "pipe"]
    files: List[Source] = []
    stay = [one for one in rest if one.via not in ("pipe", "terminal")]
    found, complete = readers.find(root, {one.path for one in pipes}, min(members, default=0)) if pipes else ({}, False)
    for one in pipes:
        reader = readers.choose([h for h in found[one.path] if h.pid not in one.pids or len(one.pids) > 1], members)
        written = readers.follow(root, reader, members) if reader else []
        if written and reader:
            note = _stuck(root, reader.pid)
            files += [Source(to.path, "tee", one.pids, to.pid, to.fd, reader.pid, note) for to in written]
            continue
        runtime = reader is None or readers.comm(root, reader.pid) in readers.RUNTIMES
        logs = _container_logs(root, one) if runtime else []
        if logs:
            files += [replace(log, reader=reader.pid if reader else None) for log in logs]
        elif reader is None:
            stay.append(replace(one, note="nobody reads this pipe" if complete else "no reader can be seen from here"))
        else:
            note = _stuck(root, reader.pid) or f"read by {readers.comm(root, reader.pid)} ({reader.pid})"
            stay.append(replace(one, reader=reader.pid, note=note))
    for one in rest:
        if one.via == "terminal":
            logs = _container_logs(root, one)
            files += logs
            stay += [] if logs else [one]
    return files, stay


def _container_logs(root: str, source: Source) -> List[Source]:
    cgroup = text_or_none(f"{root}/{source.opener}/cgroup") or ""
    return [Source(path, "container", source.pids) for path in readers.container_logs(cgroup)]


def _stuck(root: str, pid: int) -> str:
    """A reader that cannot read is worth a note: whoever writes to it will stop when the pipe is full."""
    words = {"T": "stopped", "t": "traced", "Z": "a zombie", "D": "in state D"}
    state = readers.state(root, pid)
    return f"its reader {readers.comm(root, pid)} ({pid}) is {words[state]}" if state in words else ""


def _read_all(
    members: Dict[int, Process], opened: List[Tuple[Source, int]], offsets: Dict[str, int], ends: Tuple[int, int]
) -> List[Log]:
    """One `Log` for each file, however many names and writers it has."""
    logs: Dict[Tuple[int, int], Log] = {}
    for source, fd in opened:
        facts = os.fstat(fd)
        key = (facts.st_dev, facts.st_ino)
        if key in logs:
            known = logs[key]
            logs[key] = replace(known, pids=tuple(sorted({*known.pids, *source.pids})))
            continue
        start, changed = logfile.start_of(source.path, facts.st_ino, facts.st_size, offsets)
        again = start is not None and facts.st_size > COUNT_AGAIN_SIZE
        logs[key] = Log(
            path=source.path,
            via=source.via,
            pids=source.pids,
            reader=source.reader,
            size=facts.st_size,
            lines=None if again else logfile.count_lines(fd, facts.st_size, COUNT_BUDGET_S),
            mtime=facts.st_mtime,
            inode=facts.st_ino,
            chunks=logfile.chunks(fd, start, facts, ends[0], ends[1], redact.mask),
            note="; ".join(part for part in (changed, _note(members, source)) if part),
        )
    return list(logs.values())


def _note(members: Dict[int, Process], source: Source) -> str:
    buffered = source.via not in ("terminal", "null", "socket", "none") and any(
        _block_buffered(members[pid], source) for pid in source.pids if pid in members
    )
    said = "block-buffered: PYTHONUNBUFFERED is not set" if buffered else ""
    return "; ".join(part for part in (source.note, said) if part)


def _block_buffered(process: Process, source: Source) -> bool:
    """Whether what this process prints may sit in its buffer: Python, output no terminal, not told otherwise."""
    output = (process.fds or {}).get(1)
    python = bool(process.python) or os.path.basename(process.exe or "").startswith("python")
    if not python or output is None or process.env is None or _via(output) in ("terminal", "null"):
        return False
    flags = () if process.overwritten else (process.cmdline or ())[1:]
    for flag in flags:
        if not flag.startswith("-"):
            break
        if flag[1:2] != "-" and "u" in flag[1:] and flag[1:2] not in ("c", "m", "W", "X"):
            return False
    return not process.env.get("PYTHONUNBUFFERED") and (
        source.via in ("tee", "container") or output.target == source.path
    )
