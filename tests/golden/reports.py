"""Reports built by hand, one for each picture that the renderers must show well."""

from __future__ import annotations

from hangdoc.model.report import (
    About,
    Cause,
    Clocks,
    CostRow,
    Culprit,
    End,
    Engine,
    LogRow,
    PhaseNow,
    Place,
    PortRow,
    ProcessRow,
    ProgressRow,
    RankRow,
    Report,
    StackNode,
    UndecidedCause,
    UnseenRow,
    Wait,
)

HOST = "gpu-17"
ABOUT = About(version="0.1.0", at=1_790_000_000.0, samples=6, window_s=10.4)
SGLANG = Engine(name="SGLang", version="0.5.23", args={"model-path": "/models/big", "tp": "8", "port": "8000"})


def _scheduler(rank: int, state: str = "S") -> ProcessRow:
    return ProcessRow(
        host=HOST,
        pid=4700 + rank,
        nspid=None,
        ppid=4600,
        role="scheduler",
        needed=True,
        title=f"sglang::scheduler_TP{rank}",
        state=state,
        cpu_pct=100.2 if rank != 3 else 0.0,
        rss=3_400_000_000,
        threads=205,
        phase="post-load",
    )


def _waiting(culprit: int, without: int = -1) -> list[Wait]:
    """Edges of a collective: every rank but the culprit waits for it."""
    return [
        Wait(End(HOST, 4700 + rank), [End(HOST, 4700 + culprit)], "collective")
        for rank in range(8)
        if rank not in (culprit, without)
    ]


def hung() -> Report:
    """One of eight ranks holds a native mutex and waits for it; the other seven are its victims."""
    launcher = ProcessRow(
        HOST, 4600, None, 1, "launcher", True, "python -m sglang.launch_server", "S", 0.0, 900_000_000, 60
    )
    everyone = [f"TP{rank}" for rank in range(8)]
    others = [name for name in everyone if name != "TP3"]
    load = StackNode(
        "load_model",
        "sglang/srt/model_executor/model_runner.py",
        1322,
        everyone,
        [],
        [
            StackNode(
                "process_weights_after_loading",
                "sglang/srt/layers/quantization/fp8.py",
                771,
                ["TP3"],
                others,
            ),
            StackNode(
                "dist_barrier_after_load",
                "sglang/srt/model_executor/model_runner_components/load_model_utils.py",
                387,
                others,
                ["TP3"],
                [StackNode("monitored_barrier", "torch/distributed/distributed_c10d.py", 4911, others, ["TP3"])],
            ),
        ],
    )
    return Report(
        hangdoc=ABOUT,
        verdict="hung",
        confidence="certain",
        summary="scheduler TP3 waits for a native mutex that it holds itself; the other 7 ranks wait for it.",
        engine=SGLANG,
        reasons=[
            "thread 4703 of scheduler TP3 is blocked in futex() on a mutex whose owner is thread 4703, unchanged over 10 s",
            "no needed process made progress for 20 min",
            "the log stays at 31,808 bytes",
        ],
        next=[
            "keep the evidence: hangdoc diagnose 4600 --save hang.case",
            "restart without the files that differ from the wheel",
        ],
        disprove="the thread leaves the futex call, or its owner changes",
        phase=PhaseNow("post-load", since_s=1203.0, expected_s=180.0, ordinal=6, of=13, next_line="Load weight end."),
        clocks=Clocks(age_s=1290.0, quiet_s=1203.0, since_log_s=1203.0, since_progress_s=1203.0),
        processes=[launcher, *(_scheduler(rank) for rank in range(8))],
        logs=[
            LogRow(
                "/var/log/sglang.log",
                "file",
                217,
                31808,
                1203.0,
                ["Multi-thread loading shards: 100% Completed | 7/7"],
            )
        ],
        ports=[PortRow(HOST, 8000, None, "not listening", "refused")],
        culprits=[
            Culprit(
                host=HOST,
                pid=4703,
                tid=4703,
                nstid=33,
                role="scheduler",
                rank="TP3",
                phase="post-load",
                mechanism="mutex-self",
                detail="It cannot be released by anybody else.",
                frame=Place("sglang/srt/layers/quantization/fp8.py", 771, "process_weights_after_loading"),
                since_s=1203.0,
                object="mutex 0x7f12a4000b20, held by thread 4703 of the same process",
                certainty="certain",
            )
        ],
        ranks=[
            RankRow(
                HOST,
                4700 + rank,
                "scheduler",
                f"TP{rank}",
                "post-load",
                "mutex-self" if rank == 3 else "collective",
                1 if rank == 3 else 0,
            )
            for rank in range(8)
        ],
        stacks=[load],
        waits=[
            Wait(End(HOST, 4703, 4703), [End(HOST, 4703, 4703)], "mutex", certainty="certain"),
            Wait(End(HOST, 4700, 4700), [End(HOST, 4703)], "collective", object="monitored_barrier", deadline_s=300.0),
            *_waiting(3, without=0),
        ],
        progress=[
            ProgressRow("cpu of 4700", "idling", True, 1.0, "cores", detail="in one place"),
            ProgressRow("log", "progress", False),
        ],
        cost=CostRow(wall_s=11.2, cpu_s=0.41),
    )


def slow() -> Report:
    """A phase that takes longer than it should, but moves."""
    return Report(
        hangdoc=ABOUT,
        verdict="slow",
        confidence="likely",
        summary="Weights load at 12 MiB/s; the rest needs about 40 min.",
        engine=Engine(name="vLLM", version="0.11.0"),
        reasons=["read of 812 rose by 125,829,120 bytes in 10 s"],
        next=["copy the model to a local disk"],
        phase=PhaseNow("weight-load", since_s=700.0, expected_s=300.0, ordinal=5, of=12),
        clocks=Clocks(age_s=740.0, quiet_s=0.0, since_log_s=95.0, since_progress_s=0.2),
        processes=[ProcessRow(HOST, 812, None, 800, "engine-core", True, "VLLM::EngineCore", "D")],
        logs=[LogRow("/tmp/vllm.log", "tee", 88, 9_120, 95.0, ["Loading safetensors checkpoint shards:  12% | 5/42"])],
        ports=[PortRow(HOST, 8000, None, "not listening")],
        ranks=[RankRow(HOST, 812, "engine-core", "", "weight-load", "disk-read", 0)],
        progress=[
            ProgressRow("log", "idling", True, 0.1, "lines/s", detail="lines seen before"),
            ProgressRow("read of 812", "progress", True, 12_582_912.0, "B/s", eta_s=2400.0),
        ],
    )


def ready() -> Report:
    """A server that answers."""
    return Report(
        hangdoc=ABOUT,
        verdict="ready",
        confidence="certain",
        summary="SGLang answers on port 8000.",
        engine=SGLANG,
        reasons=["GET /health answered 200 in 4 ms"],
        phase=PhaseNow("ready", since_s=30.0, ordinal=13, of=13),
        clocks=Clocks(age_s=540.0),
        logs=[LogRow("/var/log/sglang.log", "file", 641, 80_000, 30.0, ["The server is fired up and ready to roll!"])],
        ports=[PortRow(HOST, 8000, 4600, "LISTEN", "200")],
    )


def suspect() -> Report:
    """Still, but not yet overdue; seen for the first time, and an earlier verdict was taken back."""
    return Report(
        hangdoc=About(version="0.1.0", at=1_790_000_000.0, samples=2, window_s=1.5, provisional=True),
        verdict="suspect",
        confidence="hint",
        summary="Nothing moved for 16 s while worker TP1 burns CPU in one place.",
        engine=Engine(name="vLLM"),
        retracted="hung",
        phase=PhaseNow("kv-cache", since_s=16.0, expected_s=120.0, ordinal=8, of=12),
        clocks=Clocks(age_s=61.0, quiet_s=16.0, evidence_lost_in_s=584.0),
        culprits=[
            Culprit(
                HOST, 977, 1003, None, "worker", "TP1", "kv-cache", "busy-loop", "Its stack did not change in 12 looks."
            )
        ],
        ranks=[
            RankRow(HOST, 976, "worker", "TP0", "kv-cache", "queue-wait", 0),
            RankRow(HOST, 977, "worker", "TP1", "kv-cache", "busy-loop", 1),
        ],
    )


def crashed() -> Report:
    """A rank was killed for memory."""
    return Report(
        hangdoc=ABOUT,
        verdict="crashed",
        confidence="certain",
        summary="scheduler TP5 was killed by signal 9 (out of memory); the launcher still waits for it.",
        engine=SGLANG,
        reasons=["kernel log: Out of memory: Killed process 4705 (sglang::schedul)", "memory.events: oom_kill 1"],
        next=["give the container more memory, or lower --mem-fraction-static"],
        phase=PhaseNow("weight-load", ordinal=5, of=13),
        culprits=[Culprit(HOST, 4705, None, None, "scheduler", "TP5", "weight-load", "dead", "", certainty="certain")],
        ranks=[
            RankRow(
                HOST,
                4700 + rank,
                "scheduler",
                f"TP{rank}",
                "weight-load",
                "dead" if rank == 5 else "collective",
                rank == 5,
            )
            for rank in range(8)
        ],
        waits=_waiting(5),
        causes=[
            Cause(
                "oom-killed-rank",
                "A rank was killed because memory ran out",
                "likely",
                next=["look at dmesg for the process that took the memory"],
            )
        ],
    )


def undecided() -> Report:
    """Another user's processes in a container: almost everything was denied."""
    fix = "run it as root on the host: sudo hangdoc diagnose 4600"
    denied = [
        UnseenRow(HOST, pid, probe, "denied", f"{probe} of {pid}: Permission denied", fix)
        for probe in ("threads", "fds", "stacks")
        for pid in range(4700, 4708)
    ]
    return Report(
        hangdoc=ABOUT,
        verdict="undecided",
        confidence="hint",
        summary="The processes belong to another user, so nothing says whether they move.",
        engine=Engine(name="SGLang"),
        reasons=["no log could be read", "CPU time alone does not prove progress"],
        next=["sudo hangdoc diagnose 4600"],
        processes=[_scheduler(0)],
        undecided=[UndecidedCause("nccl-peer-missing", ["stacks", "sockets"])],
        unseen=[
            *denied,
            UnseenRow(HOST, None, "host", "tool-missing", "dmesg", ""),
            UnseenRow(
                HOST, 4600, "environ", "overwritten", "environ of 4600", "arguments and environment come from the root"
            ),
        ],
    )


def hostile() -> Report:
    """Everything that others write holds something that a terminal or a web page would obey."""
    bad = "\x1b[31mred\x1b[0m [red]x[/red] ```\n</details><script>alert(1)</script> @everyone \u202eabc " + "A" * 5000
    return Report(
        hangdoc=About(bad, 1.0, 1, 1.0, mode=bad),
        verdict="hung",
        confidence="likely",
        summary=bad,
        engine=Engine(name=bad, version=bad, args={bad: bad}, modified=[bad]),
        reasons=[bad],
        next=[bad],
        disprove=bad,
        phase=PhaseNow("config", next_line=bad),
        processes=[ProcessRow(HOST, 1, 1, 0, "scheduler", True, bad, bad, last_line=bad)],
        logs=[LogRow(bad, "file", tail=[bad, "````", "| a | b |"], note=bad)],
        ports=[PortRow(HOST, 1, 1, bad, bad)],
        culprits=[Culprit(HOST, 1, 2, 3, "scheduler", bad, "config", "unknown", bad, Place(bad, 1, bad), 1.0, bad)],
        ranks=[RankRow(HOST, 2, "scheduler", bad, "config", "unknown", 0)],
        stacks=[StackNode(bad, bad, 1, [bad], [])],
        waits=[Wait(End(HOST, 1), None, "none", object=bad)],
        causes=[Cause(bad, bad, "hint", [bad], [bad], bad, [bad])],
        undecided=[UndecidedCause(bad, [bad])],
        progress=[ProgressRow(bad, "idling", True, 1.0, bad, detail=bad)],
        unseen=[UnseenRow(HOST, 1, bad, "failed", bad, bad)],
    )


REPORTS = {make.__name__: make for make in (hung, slow, ready, suspect, crashed, undecided)}
