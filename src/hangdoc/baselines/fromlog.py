"""A run from the log of a past good start alone: its lines, phases, and times where its lines carry them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from ..engines import lines, load
from ..engines.profile import Profile
from ..model.baseline import Baseline
from ..model.frozen import replace
from ..model.launch import Launch, Member, Rank
from ..model.sample import Log, LogChunk, Sample
from .recorder import NotGood, Recorder

SIZE = 64 << 20  # bytes of a log that are read: a start prints some hundred kilobytes
_FIRST_PID = 1 << 30  # stands for writers whose lines carry no pid
_ARGUMENTS = re.compile(r"(?:server_args=|non-default args: )")
_PAIR = re.compile(r"'?\b(\w{1,60})'?(?:=|: )('[^']{0,200}'|-?[\d.]{1,20}|True|False)")
_VERSION = re.compile(r"LLM engine \(v([\w.+-]{1,40})\)|\bversion[ =:]+v?(\d+\.\d+[\w.+-]{0,40})")
# SGLang prints every argument with its default: only these are known to have been chosen.
_CHOSEN = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "nnodes", "device", "quantization",
           "disable-cuda-graph", "model-path")  # fmt: skip


def baseline_of_log(path: Path, name: str, engine: str | None = None) -> Baseline:
    """The last start in the log. Raises NotGood (no start, or not a good one) and OSError."""
    with path.open("rb") as file:
        data = file.read(SIZE + 1)
    if len(data) > SIZE:
        raise NotGood(f"{path} is larger than {SIZE >> 20} MB: cut the start out of it")
    text, written = data.decode("utf-8", "replace"), path.stat().st_mtime
    profile = _profile(lines.split(text), engine)
    text, earlier = _last_start(text, profile)
    rows = lines.split(text)
    launch = replace(_launch(rows, profile), version=_version(rows))
    # Its own times are all the clock there is: when the file was written or copied says nothing.
    year = time.gmtime(written).tm_year
    last = next((at for row in reversed(rows) if (at := lines.timestamp(row, year)) is not None), None)
    if last is None:
        raise NotGood(f"no line of {path} carries a time: nothing could be compared")
    recorder = Recorder(launch.root, watch_waits=False)
    log = Log(str(path), "option", size=len(text.encode()), lines=text.count("\n"), mtime=last,
              chunks=(LogChunk(0, text, len(text.encode())),))  # fmt: skip
    recorder.read_log(launch, Sample("log", last, last, last, ("logs",), logs=[log]))
    found = recorder.baseline(name, "log")
    note = f"from a log alone; {earlier} earlier start(s) in it were passed over" if earlier else "from a log alone"
    # How long imports took before the first line with a time, nobody knows.
    phases = tuple(one for one in found.phases if one.id != profile.phases[0].id)
    return replace(found, phases=phases, processes=(), provenance=replace(found.provenance, note=note))


def _profile(rows: Sequence[str], engine: str | None) -> Profile:
    known = load.profiles()
    if engine is not None:
        if engine not in load.ENGINES:
            raise NotGood(f"{engine!r} is no engine that hangdoc knows: {', '.join(load.ENGINES)}")
        return known[engine]
    marks = {name: sum(lines.mark_of(row, known[name]) is not None for row in rows) for name in load.ENGINES}
    best = max(marks, key=lambda name: marks[name])
    if marks[best] < 3:
        raise NotGood("this log holds no start of vLLM or SGLang; name the engine with --engine if it does")
    return known[best]


def _last_start(text: str, profile: Profile) -> tuple[str, int]:
    """The text from the last beginning of a start on, and how many began before: two launches may share a log."""
    order = [spec.id for spec in profile.phases]
    early = set(order[: order.index("engine-init")]) if "engine-init" in order else set()
    begins, furthest, at = [0], 0, 0
    for row in text.splitlines(keepends=True):
        mark = lines.mark_of(row.rstrip("\r\n"), profile)
        if mark is not None:
            place = order.index(mark.phase) if mark.phase in order else 0
            if (
                mark.phase in early
                and profile.root_role in (mark.roles or (profile.root_role,))
                and furthest >= len(early)
            ):
                begins.append(at)
                furthest = 0
            furthest = max(furthest, place)
        at += len(row)
    return text[begins[-1] :], len(begins) - 1


def _launch(rows: Sequence[str], profile: Profile) -> Launch:
    """The members that wrote the log, as far as its prefixes tell."""
    members: dict[int, Member] = {}
    numbers: dict[tuple[object, Rank], int] = {}
    for row in rows:
        who = lines.writer(row, profile)[0]
        if who.role is None or (who.pid is None and who.rank == Rank(world=who.rank.world) != Rank()):
            continue  # nobody, or a library that knows its global rank only: some other prefix names the same process
        pid = who.pid or numbers.setdefault((who.role, who.rank), _FIRST_PID + len(numbers))
        known = members.get(pid)
        if known is None or (known.rank == Rank() and who.rank != Rank()):
            members[pid] = Member(pid, 0.0, who.role, who.rank)
    roots = [pid for pid, one in members.items() if one.role == profile.root_role]
    root = min(roots, default=_FIRST_PID + len(numbers))
    members.setdefault(root, Member(root, 0.0, profile.root_role))
    return Launch("log", root, profile.engine, members, _arguments(rows, profile))


def _arguments(rows: Sequence[str], profile: Profile) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        if hit := _ARGUMENTS.search(row):
            everything = hit.group().startswith("server_args")
            for key, value in _PAIR.findall(row[hit.end() :]):
                name = key.replace("_", "-")
                name = profile.aliases.get(name, name)
                if value not in ("False", "") and (not everything or name in _CHOSEN):
                    found.setdefault(name, "" if value == "True" else value.strip("'"))
            break
    if "model-tag" in found:
        found.setdefault("model", found["model-tag"])
    return found


def _version(rows: Sequence[str]) -> str | None:
    for row in rows:
        if hit := _VERSION.search(row):
            return hit.group(1) or hit.group(2)
    return None
