"""What a launch was started with, as far as it matters for how a start goes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..engines.argv import number
from ..model.baseline import Configuration, Hardware
from ..model.launch import Launch
from . import caches
from .history import History
from .loading import checkpoint_bytes
from .logbook import Logbook

# An allow-list: what changes phases or durations. Names, addresses, ports and keys are nobody's business.
MATTER = frozenset(
    """
    tensor-parallel-size pipeline-parallel-size data-parallel-size expert-parallel-size nnodes enable-expert-parallel
    dtype quantization kv-cache-dtype load-format device attention-backend sampling-backend moe-runner-backend
    max-model-len context-length max-num-seqs max-num-batched-tokens max-total-tokens mem-fraction-static
    gpu-memory-utilization chunked-prefill-size enforce-eager disable-cuda-graph disable-overlap-schedule
    disable-radix-cache cuda-graph-max-bs enable-torch-compile compilation-config O0 O1 O2 O3 skip-server-warmup
    enable-dp-attention enable-ep-moe enable-deepep-moe moe-a2a-backend speculative-algorithm speculative-config
    enable-lora enable-hierarchical-cache disable-custom-all-reduce distributed-executor-backend cpu-offload-gb
    skip-tokenizer-init disaggregation-mode safetensors-load-strategy model-loader-extra-config
    """.split()  # noqa: SIM905 - names to be read, not strings to be quoted
)
_VALUE = 120  # characters kept of a value
_ONE = {"tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "nnodes"}  # left out means 1
_GPUS = ("/dev/nvidia", "/dev/dri/renderD")


def that_matter(args: Mapping[str, str]) -> dict[str, str]:
    """The arguments that matter, by name; a size of 1 is as good as none."""
    kept = {name: value[:_VALUE] for name, value in sorted(args.items()) if name in MATTER}
    return {name: value for name, value in kept.items() if not (name in _ONE and value in ("1", ""))}


def model_of(args: Mapping[str, str]) -> str | None:
    """Name of the model: as given, of a path only the last part (in a hub's cache the one that names the repository)."""
    given = args.get("model") or args.get("model-path") or ""
    if not given.startswith(("/", ".", "~")):
        return given[:_VALUE] or None
    parts = [one for one in given.split("/") if one]
    if len(parts) > 2 and parts[-2] == "snapshots":
        return parts[-3].removeprefix("models--").replace("--", "/")[:_VALUE]
    return parts[-1][:_VALUE] if parts else None


def configuration(history: History, launch: Launch, version: str | None, book: Logbook | None = None) -> Configuration:
    """The configuration of a launch, as far as it was seen. `book`: what its log says, which may tell of caches."""
    return Configuration(
        launch.engine,
        version,
        model_of(launch.args),
        that_matter(launch.args),
        _hardware(history, launch.args),
        number(launch.args, "nnodes", 1),
        caches.found(history, book, launch).state,
        checkpoint_bytes(history),
    )


def _hardware(history: History, args: Mapping[str, str]) -> Hardware:
    facts = history.root_facts
    devices = {
        fd.target.partition(" ")[0]
        for track in history.tracks.values()
        for fd in (track.process.fds or {}).values()
        if fd.target.startswith(_GPUS)
    }
    cards = {one for one in devices if one.removeprefix("/dev/nvidia").isdigit() or "/dri/" in one}
    ranks = [one for one in history.tracks.values() if one.member.role in ("worker", "scheduler", "engine-core")]
    seen = any(one.process.fds for one in ranks)
    kind = "nvidia" if any("/nvidia" in one for one in cards) else "amd" if cards else ""
    if not kind and (args.get("device") == "cpu" or (seen and not devices and len(ranks) > 0)):
        kind = "none"
    return Hardware(
        kind,
        len(cards) or (0 if kind == "none" else None),
        facts.cpus if facts else None,
        facts.mem_total if facts else None,
        facts.arch if facts else "",
    )
