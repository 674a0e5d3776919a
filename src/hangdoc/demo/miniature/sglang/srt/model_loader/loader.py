"""Reads the weight files one after another; rank 0 draws the progress bar."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod

SHARD_SECONDS = 0.6


class DefaultModelLoader:
    """Loads `*.safetensors` of one folder."""

    def __init__(self, model_path: str, rank: int) -> None:
        self.files = sorted(Path(model_path).glob("*.safetensors"))
        self.rank = rank
        self.weights: list[bytes] = []

    def load_model(self) -> None:
        """Read, then process."""
        self.load_weights_only()
        self.postprocess_weights()

    def load_weights_only(self) -> None:
        """Read all files into memory."""
        began = time.monotonic()
        self._draw(0, began)
        for number, file in enumerate(self.files, 1):
            self.weights.append(file.read_bytes())
            time.sleep(SHARD_SECONDS)
            self._draw(number, began)
        if self.rank == 0:
            sys.stderr.write("\n")

    def postprocess_weights(self) -> None:
        """Bring the weights into the form that the kernels want."""
        method = UnquantizedLinearMethod(self.rank)
        for weight in self.weights:
            method.process_weights_after_loading(weight)

    def _draw(self, done: int, began: float) -> None:
        if self.rank:
            return
        total, spent = len(self.files), time.monotonic() - began
        left = SHARD_SECONDS * (total - done)
        bar = f"{100 * done // max(1, total):3d}% Completed | {done}/{total}"
        speed = f"[00:{int(spent):02d}<00:{int(left):02d}, {done / max(spent, 0.001):5.2f}it/s]"
        sys.stderr.write(f"\rMulti-thread loading shards: {bar} {speed}")
        sys.stderr.flush()
