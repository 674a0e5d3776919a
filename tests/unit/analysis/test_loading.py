"""Weights that several ranks read, and bars that count late: what is left is what storage still has to give."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hangdoc.analysis import channels
from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.model.report import ProgressRow
from hangdoc.model.sample import Checkpoint, Io, Storage

from .world import LOAD, ROOT, TP0, TP1, WALL, World, look, waiting

BEGIN = "".join(f"[2023-11-14 22:13:20 TP{n}] Load weight begin. avail mem=1.5 GB\n" for n in (0, 1))
IO = Io(0, 0, 0, 0, 0, 0)
MB = 1 << 20
DATA = Path(__file__).parents[2] / "data" / "engines"
SHARD, SHARDS, SPEED = 100, 20, 20  # MB, their number, MB a second


def loaded(
    mine: float,
    *,
    called: bool = False,
    ahead: int = 0,
    storage: bool = True,
    begun: bool = False,
    label: str = "Multi-thread",
) -> tuple[list[ProgressRow], str]:
    """After 50 s of 100 s, of which each rank's own counter tells a part. The bar comes `ahead` files late."""
    world = World()
    world.log = BEGIN if begun else "server_args={}\n"
    world.storage = Storage(checkpoints=(Checkpoint("/m", bytes=SHARD * SHARDS * MB, sizes=(SHARD * MB,) * SHARDS),))
    for pid in (TP0, TP1):
        world.bend(pid, LOAD, io=IO)

    def move(here: World, second: int) -> str:
        read = SPEED * MB * max(0, second - 1)
        for pid, share in ((TP0, mine), (TP1, 1.0 - mine)):
            stored = int(read * (1.0 if called else share))
            io = replace(IO, read_bytes=stored, rchar=stored if called else 0)
            here.bend(pid, io=io, thread=waiting(pid, state="D" if storage else "S"))
        counted = read // (SHARD * MB) - ahead
        if second == 1 and not begun:
            return BEGIN
        if second % 5 != 1 or counted < 0:
            return ""
        here.mtime = WALL + second
        return bar(label, counted, second)

    report = look(world, 52, move).report("0")
    return report.progress, report.summary


def bar(label: str, done: int, second: int) -> str:
    """As tqdm draws it."""
    share = f"{100 * done // SHARDS}% Completed | {done}/{SHARDS}"
    return f"\r{label} loading shards: {share} [00:{second:02}<00:30,  5.00s/it]"


def rows(progress: list[ProgressRow], channel: str) -> list[ProgressRow]:
    return [one for one in progress if one.channel.startswith(channel)]


@pytest.mark.parametrize("mine", [0.05, 0.5, 0.8])
def test_what_one_rank_maps_the_others_find_in_the_page_cache(mine: float) -> None:
    """Seen with vLLM 0.32, TP 2: one rank read 276 MiB and the other 352 of the same files when 628 of 872 were loaded."""
    progress, _ = loaded(mine)
    found = rows(progress, "weights read")
    assert [one.eta_s for one in found] == [pytest.approx(50.0, rel=0.1)] * 2


def test_what_each_rank_reads_by_calls_is_its_own() -> None:
    progress, _ = loaded(0.5, called=True)
    assert [one.eta_s for one in rows(progress, "weights read")] == [pytest.approx(50.0, rel=0.1)] * 2


def test_a_bar_of_files_that_are_read_ahead_tells_no_time() -> None:
    """Seen with SGLang 0.5.23: half of the bytes were there when one of 21 shards was counted."""
    progress, summary = loaded(0.5, ahead=6)
    (shards,) = rows(progress, "Multi-thread")
    assert (shards.done, shards.eta_s) == (4, None)
    assert "weights read: " in summary
    assert "of 2.0 GiB, about 50 s left" in summary


@pytest.mark.parametrize(("ahead", "storage"), [(0, True), (1, True), (6, False)])
def test_a_bar_that_keeps_up_or_that_no_storage_holds_up_is_believed(ahead: int, *, storage: bool) -> None:
    progress, summary = loaded(0.5, ahead=ahead, storage=storage)
    (shards,) = rows(progress, "Multi-thread")
    assert shards.eta_s == pytest.approx(5.0 * (SHARDS - shards.done), abs=5.0)  # type: ignore[operator]
    assert "Multi-thread loading shards" in summary


@pytest.mark.parametrize(("label", "known"), [("Multi-thread", False), ("One after another", True)])
def test_a_loader_of_several_files_at_once_is_not_believed_when_nobody_saw_it_begin(label: str, *, known: bool) -> None:
    progress, _ = loaded(0.5, ahead=1, begun=True, label=label)
    (shards,) = rows(progress, label)
    assert (shards.eta_s is not None) == known


def test_bytes_of_which_the_page_cache_gave_a_part_tell_no_time() -> None:
    """Seen with SGLang 0.5.23: 8 of 21 shards were counted and a fifth of the bytes, so 78 s were told where 30 were left."""
    progress, summary = loaded(0.5, ahead=-4)
    (shards,) = rows(progress, "Multi-thread")
    assert shards.done == 14
    assert shards.eta_s == pytest.approx(30.0, abs=5.0)
    assert {one.eta_s for one in rows(progress, "weights read")} == {None}
    assert "Multi-thread loading shards: 14 of 20" in summary


def test_a_real_load_from_a_slow_disk_by_two_ranks() -> None:
    """The counters and the bar of SGLang 0.5.23: each second from a fifth to four fifths. By its bar alone half way through the
    load, when 1 of 21 shards was counted, 230 s were left."""
    lines = (DATA / "sglang-0.5.23-disk-load.tsv").read_text().splitlines()
    sizes, (_, took), *rows = [line.split("\t") for line in lines if not line.startswith("#")]
    shards = tuple(int(one) for one in sizes[1:])
    world, diagnosis, told = World(), Diagnosis(ROOT), 0
    world.log = "server_args={}\n"
    world.storage = Storage(checkpoints=(Checkpoint("/m", bytes=sum(shards), sizes=shards),))
    diagnosis.add(world.sample(0.0))
    for at, *counters, clock, count in rows:
        now, text = 1.0 + float(at), BEGIN if at == "0.0" else ""
        for pid, (read, called, mapped) in ((TP0, counters[:3]), (TP1, counters[3:])):
            io = replace(IO, read_bytes=int(read), rchar=int(called))
            world.bend(pid, io=io, rss_file=int(mapped), thread=waiting(pid, state="D"))
        if int(count) > told - 1:
            told, world.mtime = int(count) + 1, WALL + now
            text += f"\rMulti-thread loading shards: 0% Completed | {count}/{len(shards)} [{clock}<00:30,  3.00s/it]"
        diagnosis.add(world.sample(now, text))
        if 0.2 <= float(at) / float(took) <= 0.8:
            view = diagnosis.view()
            assert view is not None
            (left,) = re.findall(r"about (\d+) s left", channels.left(view))
            assert int(left) == pytest.approx(float(took) - float(at), rel=0.25, abs=1.0)
