"""The steps of loading a model, in SGLang's order and with its log lines."""

from __future__ import annotations

import argparse
import time

from torch.distributed import distributed_c10d as dist

from sglang.srt.model_executor.model_runner_components.load_model_utils import dist_barrier_after_load
from sglang.srt.model_loader.loader import DefaultModelLoader
from sglang.srt.process import say


class ModelRunner:
    """One rank's part of the model."""

    def __init__(self, args: argparse.Namespace, rank: int, address: tuple[str, int]) -> None:
        self.args, self.rank, self.address = args, rank, address
        self.init_torch_distributed()
        self.initialize()

    def init_torch_distributed(self) -> None:
        """Join the other ranks."""
        began = time.monotonic()
        say("Init parallel begin.", self.rank)
        time.sleep(0.5)
        self.group = dist.init_process_group(self.rank, self.args.tp, self.address)
        dist.all_reduce(1, self.group)
        say(f"Init parallel ends. elapsed={time.monotonic() - began:.2f} s", self.rank)
        say("Memory baseline taken. mem usage=0.00 GB", self.rank)

    def initialize(self) -> None:
        """Weights, then memory."""
        self.load_model()
        self.alloc_memory_pool()

    def load_model(self) -> None:
        """Load the weights and wait for the other ranks."""
        began = time.monotonic()
        say("Load weight begin. avail mem=20.09 GB", self.rank)
        DefaultModelLoader(self.args.model_path, self.rank).load_model()
        elapsed = time.monotonic() - began
        say(
            f"Load weight end. elapsed={elapsed:.2f} s, type=Miniature, avail mem=20.08 GB, mem usage=0.01 GB.",
            self.rank,
        )
        dist_barrier_after_load(self.group)

    def alloc_memory_pool(self) -> None:
        """Memory for the KV cache."""
        self.pool = bytearray(16 << 20)
        time.sleep(0.8)
        dist.all_reduce(len(self.pool), self.group)
        say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 4096, K size: 0.01 GB, V size: 0.01 GB", self.rank)
        say("Memory pool end. avail mem=20.06 GB", self.rank)
