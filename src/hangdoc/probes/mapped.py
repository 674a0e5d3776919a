"""What a process has mapped that a diagnosis asks for: weight files, and libraries that sit between it and a driver.

`maps` is short of nothing to read while the target's mmap lock is free, and blocks while somebody holds that lock, so it
is read in a disposable child. Names only; no page is touched.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from ..model.sample import Unseen
from .checkpoints import WEIGHTS
from .procfs import Folder, say, text

LIMIT = 8 << 20  # bytes of `maps`
WEIGHT_FILES, LIBRARIES = 512, 128
# Drivers and what interposes them, communication, compilers at run time, allocators, OpenMP, profilers.
LIBRARY = re.compile(
    r"/(lib(?:cuda(?:rt)?|vgpu|hami|nvidia-[\w-]+|nvrtc|nccl\w*|rccl|mpi|fabric|ibverbs|mlx5|nvshmem\w*|ucp|ucs|amdhip64"
    r"|hsa-runtime64|rocprof\w*|roctracer64|gomp|omp|iomp5|tcmalloc\w*|jemalloc|mimalloc|asan|tsan|triton|nvbit\w*|dcgm"
    r"|torch_cuda|torch_hip|Toolkit\w*|cupti|xpu\w*|ascendcl|hccl)\b[\w.+-]*\.so[\w.]*|[\w.+-]*(?:preload|inject|intercept"
    r"|hook|shim|vgpu)[\w.+-]*\.so[\w.]*)\Z"
)


def read(
    root: str, pid: int, preload: str, unseen: List[Unseen]
) -> Tuple[Optional[Tuple[str, ...]], Optional[Tuple[str, ...]]]:
    """(weight files, libraries that matter) that `pid` maps; `preload` is its LD_PRELOAD, whose libraries always matter.

    (None, None) when `maps` may not be read.
    """
    try:
        with Folder(root, pid) as folder:
            raw = folder.read("maps", LIMIT)
    except OSError as error:
        say(unseen, "storage", error, "maps", pid)
        return None, None
    return sort(text(raw), preload)


def sort(maps: str, preload: str) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """The same from the text of `maps`. Pure."""
    named = {one.rpartition("/")[2] for one in re.split(r"[:\s]+", preload) if one}
    weights: Dict[str, None] = {}
    libraries: Dict[str, None] = {}
    # Most of thousands of lines are unnamed, or name one of a few hundred files again.
    for path in dict.fromkeys([line[73:] for line in maps.split("\n")]):
        if not path.startswith("/"):
            continue
        if WEIGHTS.search(path):
            weights[path] = None
        elif ".so" in path and (LIBRARY.search(path) or path.rpartition("/")[2] in named):
            libraries[path] = None
    return tuple(weights)[:WEIGHT_FILES], tuple(libraries)[:LIBRARIES]
