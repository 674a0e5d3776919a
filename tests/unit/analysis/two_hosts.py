"""The small world on two hosts: node 0 with TP0 on gpu01, node 1 with TP1 on gpu02, seen as one union."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.hosts.move import Shift
from hangdoc.hosts.union import union
from hangdoc.model.places import HostPlace, packed
from hangdoc.model.sample import Fd, Sample, Socket

from .world import ARGV, BOOT, DETOK, RECV_PIPE, ROOT, SITE, TP0, TP1, WALL, World, process

STORE = "10.0.0.1:5000"
SITE_TORCH = f"{SITE}/torch/distributed"
JOINING = (
    ("_create_c10d_store", f"{SITE_TORCH}/rendezvous.py"),
    ("init_process_group", f"{SITE_TORCH}/distributed_c10d.py"),
    ("Scheduler.__init__", f"{SITE}/sglang/srt/managers/scheduler.py"),
    ("run_scheduler_process", f"{SITE}/sglang/srt/managers/scheduler.py"),
)
LISTENING = Socket(50, "tcp", "LISTEN", STORE)


def fds(*inodes: int) -> dict[int, Fd]:
    return {30 + number: Fd(30 + number, "socket", f"socket:[{one}]", one) for number, one in enumerate(inodes)}


class Pair:
    """Node 0 and node 1. `down` says which places are lost from which second on."""

    def __init__(self, *, address: str = STORE) -> None:
        self.nodes = [World(), World()]
        for number, (world, mine, other) in enumerate(zip(self.nodes, (TP0, TP1), (TP1, TP0), strict=True)):
            del world.processes[other]
            meet = address if number else STORE
            words = (*ARGV, "--nnodes", "2", "--node-rank", str(number), "--dist-init-addr", meet)
            world.processes[ROOT] = process(ROOT, 1, " ".join(words), RECV_PIPE)
            world.bend(mine, JOINING)
        del self.nodes[1].processes[DETOK]
        self.down: dict[int, float] = {}
        self.given = 2

    def sample(self, at: float) -> Sample:
        places = [HostPlace("gpu01"), HostPlace("gpu02")][: self.given]
        places = [
            replace(one, lost="timed-out", detail="no route to host") if at >= self.down.get(number, 1e9) else one
            for number, one in enumerate(places)
        ]
        samples = {place: self.nodes[place].sample(at) for place, one in enumerate(places) if one.lost is None}
        samples = {place: replace(one, probes=(*one.probes, "sockets")) for place, one in samples.items()}
        probes = ("processes", "threads", "fds", "sockets", "stacks", "logs", "health")
        now = Shift(BOOT + at, BOOT + at, WALL + at)
        return union(places, samples, dict.fromkeys(samples, Shift()), now, probes)


def look(pair: Pair, seconds: int = 17, root: int = ROOT, move: Any = None) -> Diagnosis:
    """One union a second."""
    diagnosis = Diagnosis(root)
    for second in range(seconds):
        if move:
            move(pair, second)
        diagnosis.add(pair.sample(float(second)))
    return diagnosis


FIRST_TP0, SECOND_TP1 = TP0, packed(1, TP1)
