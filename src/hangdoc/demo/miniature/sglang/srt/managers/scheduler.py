"""One rank: it loads its part of the model together with the others, then serves requests."""

from __future__ import annotations

import argparse
import time
from multiprocessing.connection import Connection

from torch.distributed import distributed_c10d as dist

from sglang.srt import process
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.process import say


class Scheduler:
    """Rank 0 takes the requests and tells the other ranks."""

    def __init__(
        self,
        args: argparse.Namespace,
        rank: int,
        address: tuple[str, int],
        requests: Connection | None,
        tokens: Connection | None,
    ) -> None:
        self.args, self.rank, self.address = args, rank, address
        self.requests, self.tokens = requests, tokens
        self.init_model_worker()

    def init_model_worker(self) -> None:
        """Load the model."""
        self.runner = ModelRunner(self.args, self.rank, self.address)
        if self.rank == 0:
            say("max_total_num_tokens=4096, chunked_prefill_size=4096, max_running_requests=2048, context_len=2048", 0)

    def event_loop_normal(self) -> None:
        """Serve for ever."""
        while True:
            request = self.recv_requests()
            self.run_batch()
            if self.requests and self.tokens:
                self.tokens.send(request)
                self.requests.send("done")

    def recv_requests(self) -> int:
        """The next request, on every rank."""
        request = None
        if self.requests:
            self.requests.recv()
            request = 1
        return dist.broadcast(request, self.runner.group)

    def run_batch(self) -> None:
        """One forward pass."""
        if self.rank == 0:
            say("Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, #running-req: 0, #queue-req: 0", 0)
        time.sleep(0.6)
        dist.all_reduce(1, self.runner.group)


def run_scheduler_process(
    args: argparse.Namespace,
    rank: int,
    address: tuple[str, int],
    pipe_writer: Connection,
    requests: Connection | None,
    tokens: Connection | None,
) -> None:
    """Main function of a scheduler process."""
    process.live_and_die_with_parent()
    process.set_title(f"sglang::scheduler_TP{rank}")
    scheduler = Scheduler(args, rank, address, requests, tokens)
    pipe_writer.send({"status": "ready"})
    scheduler.event_loop_normal()
