"""Which folders a launch depends on, by its arguments and variables. Pure: nothing is looked at here.

Variables and defaults: huggingface_hub `constants.py`, vLLM `envs.py`, SGLang `environ.py`, torch `cpp_extension.py` and
`_inductor/runtime/cache_dir_utils.py`, Triton `knobs.py`, FlashInfer `jit/env.py`, DeepGEMM, AITER, CUDA's and
ModelScope's documentation.
"""

from __future__ import annotations

import posixpath
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..model.frozen import dataclass

# option -> role of the path or hub name that it takes
OPTIONS = {
    "--model": "model",
    "--model-path": "model",
    "--tokenizer": "tokenizer",
    "--tokenizer-path": "tokenizer",
    "--speculative-draft-model-path": "draft-model",
    "--speculative-draft-model": "draft-model",
    "--speculative-model": "draft-model",
    "--download-dir": "download-dir",
}
# role -> (variables of which the first that is set counts, each with what is put behind it; default). `~` is HOME, `^` the
# user's cache folder (XDG_CACHE_HOME, else ~/.cache), `%` the folder for temporary files.
_CACHES: Tuple[Tuple[str, Tuple[Tuple[str, str], ...], str], ...] = (
    ("hub", (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "/hub")), "^/huggingface/hub"),
    ("xet", (("HF_XET_CACHE", ""), ("HF_HOME", "/xet")), "^/huggingface/xet"),
    ("vllm-cache", (("VLLM_CACHE_ROOT", ""),), "^/vllm"),
    ("sglang-cache", (("SGLANG_CACHE_DIR", ""),), "~/.cache/sglang"),
    ("torch-extensions", (("TORCH_EXTENSIONS_DIR", ""),), "^/torch_extensions"),
    ("inductor", (("TORCHINDUCTOR_CACHE_DIR", ""),), "%/torchinductor_@"),
    ("triton", (("TRITON_CACHE_DIR", ""), ("TRITON_HOME", "/.triton/cache")), "~/.triton/cache"),
    (
        "flashinfer",
        (("FLASHINFER_WORKSPACE_BASE", "/.cache/flashinfer"), ("FLASHINFER_WORKSPACE_DIR", "")),
        "~/.cache/flashinfer",
    ),
    (
        "deep-gemm",
        (("DG_JIT_CACHE_DIR", ""), ("DG_CACHE_DIR", ""), ("SGLANG_DG_CACHE_DIR", "")),
        "~/.cache/deep_gemm",
    ),
    ("deep-gemm", (), "~/.deep_gemm"),
    ("aiter", (("AITER_JIT_DIR", ""),), "~/.aiter"),
    ("cuda-cache", (("CUDA_CACHE_PATH", ""),), "~/.nv/ComputeCache"),
    ("modelscope", (("MODELSCOPE_CACHE", ""),), "~/.cache/modelscope"),
    ("tilelang", (("TILELANG_CACHE_DIR", ""),), "~/.tilelang/cache"),
    ("ray", (("RAY_TMPDIR", "/ray"),), "%/ray"),
    ("temporary", (("TMPDIR", ""),), "/tmp"),  # noqa: S108 - looked at, never written
    ("home", (("HOME", ""),), "~"),
    ("shm", (), "/dev/shm"),  # noqa: S108
)


@dataclass(frozen=True)
class Named:
    """A path that a launch names. `path` may still be a hub's name ("org/model") where `role` is a model's."""

    role: str
    path: str
    source: str


def arguments(words: Sequence[str]) -> List[Named]:
    """Models and folders that a command line names."""
    found = []
    for number, word in enumerate(words):
        option, equals, value = word.partition("=")
        option = option.replace("_", "-") if option.startswith("--") else option
        if option in OPTIONS:
            if not equals:
                value = words[number + 1] if number + 1 < len(words) else ""
            if value and not value.startswith("-"):
                found.append(Named(OPTIONS[option], value, option))
        elif word == "serve" and 0 < number < len(words) - 1 and not words[number + 1].startswith("-"):
            found.append(Named("model", words[number + 1], "serve"))
    return found


def caches(env: Mapping[str, str], user: str = "") -> List[Named]:
    """Cache folders by the environment of a process. Those below HOME are left out where HOME is not known."""
    home = env.get("HOME", "")
    temporary = env.get("TMPDIR", "") or "/tmp"  # noqa: S108
    start = {"~": home, "^": env.get("XDG_CACHE_HOME", "") or (home and home + "/.cache"), "%": temporary}
    found = []
    for role, variables, default in _CACHES:
        name, tail = next(((name, tail) for name, tail in variables if env.get(name)), ("", ""))
        if name:
            path = expanded(env[name], env) + tail
        elif default[0] in start:
            path = start[default[0]] and start[default[0]] + default[1:]
        else:
            path = default
        path = path.replace("@", user)
        if path.startswith("/"):
            found.append(Named(role, posixpath.normpath(path), name or "default"))
    return found


def expanded(value: str, env: Mapping[str, str]) -> str:
    """`~` and `$HOME` at the beginning of a value, as the libraries expand them."""
    for word in ("~/", "$HOME/"):
        if value.startswith(word) and env.get("HOME"):
            return env["HOME"] + "/" + value[len(word) :]
    return value


def hub_folder(name: str) -> Optional[str]:
    """Folder of a repository in huggingface_hub's cache: "models--org--name". None for what is no such name."""
    parts = name.split("/")
    sound = 1 <= len(parts) <= 2 and all(part and part.strip(".") and not part.startswith("~") for part in parts)
    return "models--" + "--".join(parts) if sound else None


def repository(path: str) -> str:
    """ "org/model" of a path in that cache, "" for another path."""
    for part in path.split("/"):
        if part.startswith("models--"):
            return part[len("models--") :].replace("--", "/")
    return ""


def environment(pid: int, parents: Mapping[int, int], known: Mapping[int, Dict[str, str]]) -> Dict[str, str]:
    """Variables of a process, or of its nearest ancestor whose variables are known: a title overwrites one's own."""
    seen = set()
    while pid not in known and pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
    return known.get(pid, {})
