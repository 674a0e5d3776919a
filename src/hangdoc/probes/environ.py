"""Environment by allow-list with secrets masked, and resource limits."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from ..model.sample import Unseen
from .procfs import Folder, parse_stat, parse_status, say, text
from .redact import mask_variable

_PREFIXES = (
    "VLLM_", "SGLANG_", "SGL_", "CUDA_", "NCCL_", "GLOO_", "TORCH", "PYTORCH_", "TORCHINDUCTOR_", "HF_", "HUGGINGFACE_",
    "HUGGING_FACE_", "TRANSFORMERS_", "PYTHON", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NUMEXPR_", "RAY_", "SLURM_",
    "ROCR_", "HIP_", "HSA_", "RCCL_", "TRITON_", "FLASHINFER_", "FLASH_ATTENTION_", "UCX_", "NVSHMEM_",
    "TP_", "NVIDIA_",
    "OMPI_", "PMI_", "PMIX_", "MC_", "MOONCAKE_", "NIXL_", "LMCACHE_", "DEEP_GEMM_", "DG_", "C10D_",
    "AITER_", "MODELSCOPE_", "MIOPEN_", "HCCL_", "ASCEND_", "TILELANG_", "TVM_", "CUTE_", "NVTE_", "TRTLLM_", "ROCM_",
    "GPU_", "FI_", "IBV_", "MLX5_", "RDMAV_", "GDRCOPY_", "DEEP_EP_", "SAFETENSORS_", "RUNAI_STREAMER_", "NUMBA_",
    "XFORMERS_", "KVCACHED_", "FLA_", "MALLOC_", "GOMP_", "MSCCL", "NV_", "XLA_", "TPU_", "HABANA_", "PT_HPU_",
)  # fmt: skip
_NAMES = frozenset(
    (
        "LD_PRELOAD", "LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK", "GROUP_RANK", "HOST_IP", "TMPDIR", "XDG_CACHE_HOME", "KUBERNETES_SERVICE_HOST", "HOSTNAME", "HOME",
        "PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "TOKENIZERS_PARALLELISM", "SAFETENSORS_FAST_GPU", "MAX_JOBS",
        "CC", "CXX",
        "LC_ALL", "LANG", "container", "POD_IP", "NODE_IP", "NODE_NAME", "GLIBC_TUNABLES", "LD_AUDIT",
        "RES_OPTIONS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    )
)  # fmt: skip
_PROXY = re.compile(r"(?i)^(?:https?|all|no|ftp)_proxy$")
_NUMBER_LIMIT = 512  # variables; more is not an honest environment


def allowed(name: str) -> bool:
    """Whether a variable may leave the host."""
    return name in _NAMES or name.startswith(_PREFIXES) or bool(_PROXY.match(name))


def overwritten(raw: bytes) -> bool:
    """Whether something wrote over the area: it begins with no `NAME=`, or has holes, which execve(2) never leaves."""
    if not raw:
        return False
    first = raw.split(b"\0", 1)[0]
    return b"=" not in first or b"\0\0" in raw


def parse(raw: bytes) -> Dict[str, str]:
    """The allow-listed variables of an intact area, masked."""
    found: Dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and allowed(text(name)) and len(found) < _NUMBER_LIMIT:
            found[text(name)] = mask_variable(text(name), text(value[:4096]))
    return found


def read(root: str, pid: int, unseen: List[Unseen]) -> Optional[Dict[str, str]]:
    """Allow-listed variables. None, with reason `overwritten`, when setproctitle wrote over the area."""
    try:
        with Folder(root, pid) as folder:
            if parse_stat(folder.read("stat")).state in "ZX":
                unseen.append(Unseen("environ", "zombie", "a zombie has no environment", pid))
                return None
            raw = folder.read("environ")
    except OSError as error:
        say(unseen, "environ", error, "environ", pid)
        return None
    if overwritten(raw):
        unseen.append(Unseen("environ", "overwritten", "the process wrote a title over its environment", pid))
        return None
    return parse(raw)


def confinement(root: str, pid: int) -> Dict[str, Any]:
    """What `status` tells of a process's bounds: CPUs, memory nodes, seccomp, capabilities (fields of `Process`)."""
    try:
        with Folder(root, pid) as folder:
            status = parse_status(folder.read("status"))
    except OSError:  # gone: the step before has said so
        return {}
    found: Dict[str, Any] = {}
    for field, name in (("cpus_allowed", "Cpus_allowed_list"), ("mems_allowed", "Mems_allowed_list")):
        if name in status:
            found[field] = status[name][:1024]
    if status.get("Seccomp", "").isdigit():
        found["seccomp"] = int(status["Seccomp"])
    if re.match(r"[0-9a-f]{1,16}\Z", status.get("CapEff", "")):
        found["capabilities"] = int(status["CapEff"], 16)
    return found


def limits(root: str, pid: int, unseen: List[Unseen]) -> Optional[Dict[str, Tuple[str, str]]]:
    """Resource limits: name -> (soft, hard)."""
    try:
        with Folder(root, pid) as folder:
            raw = folder.read("limits")
    except OSError as error:
        say(unseen, "environ", error, "limits", pid)
        return None
    found = {}
    for line in text(raw).splitlines()[1:]:
        # "Max open files       1024        1048576       files": columns are at least 2 blanks apart
        parts = re.split(r" {2,}", line.strip())
        if len(parts) >= 3:
            found[parts[0]] = (parts[1], parts[2])
    return found
