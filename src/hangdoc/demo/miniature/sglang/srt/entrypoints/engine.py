"""Starts the schedulers and the detokenizer, and waits until the schedulers have loaded the model."""

from __future__ import annotations

import argparse
import multiprocessing
import socket
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from sglang.srt.managers.detokenizer_manager import run_detokenizer_process
from sglang.srt.managers.scheduler import run_scheduler_process

_mp = multiprocessing.get_context("spawn")


def free_port() -> int:
    """A TCP port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def launch_subprocesses(args: argparse.Namespace) -> Connection:
    """Start all of this node and wait for the schedulers; gives the connection that takes requests to scheduler 0."""
    host, _, port = args.dist_init_addr.rpartition(":")
    address = (host, int(port)) if host else ("127.0.0.1", free_port())
    local = args.tp // args.nnodes
    requests, request_end = _mp.Pipe()
    detokenizer_end, tokens = _mp.Pipe(duplex=False)
    readers, processes = [], []
    for rank in range(args.node_rank * local, (args.node_rank + 1) * local):
        reader, writer = _mp.Pipe(duplex=False)
        ends = (request_end, tokens) if rank == 0 else (None, None)
        work = _mp.Process(target=run_scheduler_process, args=(args, rank, address, writer, *ends), daemon=True)
        work.start()
        writer.close()
        readers.append(reader)
        processes.append(work)
    if args.node_rank == 0:
        _mp.Process(target=run_detokenizer_process, args=(detokenizer_end,), daemon=True).start()
    for end in (request_end, detokenizer_end, tokens):
        end.close()
    _wait_for_scheduler_ready(readers, processes)
    return requests


def _wait_for_scheduler_ready(readers: list[Connection], processes: list[SpawnProcess]) -> None:
    for rank, reader in enumerate(readers):
        while not reader.poll(timeout=5.0):
            dead = [number for number, process in enumerate(processes) if not process.is_alive()]
            if dead:
                raise RuntimeError(f"Rank {dead[0]} scheduler died during initialization")
        try:
            reader.recv()
        except EOFError:
            raise RuntimeError(f"Rank {rank} scheduler died during initialization") from None
