"""Weight files of a model folder, their sizes, and what the index says should be there.

Forms: `*.safetensors.index.json` and `pytorch_model.bin.index.json` of transformers (`weight_map`: tensor -> file,
`metadata.total_size`: bytes of the tensors).
"""

from __future__ import annotations

import itertools
import json
import os
import posixpath
import re
import stat
from collections import Counter
from typing import Dict, List, Optional, Tuple

from ..model.storage import Checkpoint
from .inside import Inside
from .reading import bounded, open_regular, text_or_none
from .whereabouts import hub_folder

WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|gguf)\Z")
_NO_WEIGHTS = re.compile(r"(?:training_args|optimizer|scheduler|rng_state|tokenizer)[^/]*\Z")
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json", "consolidated.safetensors.index.json")
INDEX_LIMIT = 16 << 20  # bytes; that of a model of a trillion parameters has 10 MB
FILES = 4096  # weight files looked at
NAMES = 16  # missing ones named
SIZED = 1024  # files whose sizes are told one by one


def folder_of(inside: Inside, name: str, working: Optional[str], hubs: List[str]) -> Optional[str]:
    """The folder (links followed) that a path or hub name stands for; None when there is none yet. Raises Untouched."""
    paths = [name] if name.startswith("/") else [posixpath.join(working, name)] if working else []
    paths += [one for hub in hubs for one in [_snapshot(inside, hub, name)] if one and not name.startswith("/")]
    for path in paths:
        try:
            real = inside.real(path)
            if stat.S_ISDIR(os.lstat(inside.outer(real)).st_mode):
                return real
            if WEIGHTS.search(real):  # a single file: gguf
                return posixpath.dirname(real)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


def _snapshot(inside: Inside, hub: str, name: str) -> Optional[str]:
    """The snapshot that a hub's name stands for in this cache: that of `refs/main`, else the youngest."""
    folder = hub_folder(name)
    if folder is None:
        return None
    try:
        top = inside.real(posixpath.join(hub, folder))
        revision = (text_or_none(inside.outer(f"{top}/refs/main"), 128) or "").strip()
        with os.scandir(inside.outer(f"{top}/snapshots")) as entries:
            found = {one.name: one.stat(follow_symlinks=False).st_mtime for one in entries}
    except (FileNotFoundError, NotADirectoryError):
        return None
    if revision not in found:
        revision = max(found, key=lambda one: found[one], default="")
    return f"{top}/snapshots/{revision}" if revision else None


def read(inside: Inside, folder: str, name: str, pids: Tuple[int, ...]) -> Optional[Checkpoint]:
    """What is in the folder (a path without links). Raises OSError, Untouched where a file lies on a silent mount."""
    with os.scandir(inside.outer(folder)) as entries:
        names = [one.name for one in itertools.islice(entries, 4 * FILES)]
    weights = [one for one in sorted(names) if WEIGHTS.search(one) and not _NO_WEIGHTS.match(one)][:FILES]
    sizes: Dict[str, Tuple[int, float]] = {}
    for one in weights:
        try:
            seen = os.lstat(inside.outer(inside.real(posixpath.join(folder, one))))
        except FileNotFoundError:  # a link that leads nowhere
            continue
        if stat.S_ISREG(seen.st_mode):
            sizes[one] = seen.st_size, seen.st_mtime
    index = next((one for one in INDEXES if one in names), None)
    index = index or next((one for one in sorted(names) if one.endswith(".safetensors.index.json")), None)
    wanted, total = _index(inside, posixpath.join(folder, index)) if index else (None, None)
    if index is not None and index.endswith(".safetensors.index.json") and wanted:
        # what else lies there (the same weights in another form) is not loaded
        named = set(wanted)
        sizes = {one: seen for one, seen in sizes.items() if one in named}
    elif any(one.endswith(".safetensors") for one in sizes):
        sizes = {one: seen for one, seen in sizes.items() if one.endswith(".safetensors")}
    missing = [one for one in wanted or () if one not in sizes]
    if not sizes and index is None:
        return None
    kinds = Counter(one.rpartition(".")[2] for one in sizes)
    return Checkpoint(
        path=folder,
        name=name,
        pids=pids,
        format=max(kinds, key=lambda one: kinds[one], default=""),
        files=len(sizes),
        bytes=bounded(sum(size for size, _ in sizes.values())),
        index=index,
        expected_files=None if wanted is None else len(wanted),
        expected_bytes=total,
        missing=len(missing),
        missing_names=tuple(missing[:NAMES]),
        newest=max((changed for _, changed in sizes.values()), default=None),
        sizes=() if missing or len(sizes) > SIZED else tuple(bounded(size) for size, _ in sizes.values()),
    )


def _index(inside: Inside, path: str) -> Tuple[Optional[List[str]], Optional[int]]:
    """(files, bytes of tensors) that an index names; (None, None) for what is no index."""
    try:
        handle = open_regular(inside.outer(inside.real(path)))
    except OSError:
        return None, None
    with os.fdopen(handle, "rb") as file:
        raw = file.read(INDEX_LIMIT + 1)
    return parse_index(raw)


def parse_index(raw: bytes) -> Tuple[Optional[List[str]], Optional[int]]:
    """(file names in order, `total_size`) of an index. None for what is not there or has another form. Pure."""
    if len(raw) > INDEX_LIMIT:
        return None, None
    try:
        plain = json.loads(raw)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(plain, dict):
        return None, None
    table, about = plain.get("weight_map"), plain.get("metadata")
    files = None
    if isinstance(table, dict):
        files = sorted({one for one in table.values() if isinstance(one, str) and "/" not in one})[:FILES]
    total = about.get("total_size") if isinstance(about, dict) else None
    sound = isinstance(total, (int, float)) and not isinstance(total, bool) and 0 <= total < 1 << 60
    return files, int(total) if sound else None  # type: ignore[arg-type]
