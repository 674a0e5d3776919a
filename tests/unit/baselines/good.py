"""Small baselines to be bent by tests."""

from __future__ import annotations

from dataclasses import replace

from hangdoc.model.baseline import (
    Baseline,
    BaselineLine,
    Configuration,
    Hardware,
    PhaseTimes,
    RoleCount,
    Run,
    WaitSignature,
)

HERE = Configuration(
    "sglang", "0.5.23", "m", {"tensor-parallel-size": "2"}, Hardware("none", 0, 2, 1 << 34, "x86_64"), caches="warm"
)


def _ranks(load: float) -> dict[str, tuple[float | None, ...]]:
    return {"scheduler TP0": (load,), "scheduler TP1": (load + 1,)}


def one_run(ready: float = 60.0, load: float = 10.0, name: str = "good") -> Baseline:
    """A start of two ranks that loads for `load` seconds."""
    return Baseline(
        name,
        HERE,
        runs=(Run("2026-11-29", "case", ready_s=ready, lines=90, bytes=9000, caches="warm", hangdoc="0.1.0"),),
        phases=(
            PhaseTimes("import", (0.0,), (20.0,), 20.0, 20.0, {"launcher": (20.0,), "scheduler TP0": (9.0,)}, (5,)),
            PhaseTimes("weight-load", (20.0,), (load,), load, load, _ranks(load), (70,)),
        ),
        lines=(
            BaselineLine("Load weight begin. avail mem=#", "scheduler", (20.0,)),
            BaselineLine("Load weight end. elapsed=#", "scheduler", (20.0 + load,)),
        ),
        processes=(RoleCount("scheduler", 2, (50,)),),
        ports={"launcher": 1},
        waits=(WaitSignature("launcher", "engine-spawn", "pipe-read", "wait"),),
    )  # fmt: skip


def named(one: Baseline, name: str) -> Baseline:
    """The same under another name."""
    return replace(one, name=name)
