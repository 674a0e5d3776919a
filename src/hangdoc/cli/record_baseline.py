"""`hangdoc record-baseline`: record a good start, or merge a further one into its record."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import typer

from ..baselines import store
from ..baselines.fromlog import baseline_of_log
from ..baselines.merge import Different, merged
from ..baselines.recorder import NotGood, Recorder
from ..model.baseline import Baseline, Configuration
from ..model.frozen import replace
from ..session import casefile, recording, target
from ..session.child import CannotStart
from ..session.look import Options
from . import exits, screen
from .here import Reaching, channel_to
from .reaching import reaches
from .targets import Targets, parse, pid_of


class Caches(str, Enum):
    """Whether the caches (compilers', page cache, the model on disk) were filled before."""

    auto = "auto"

    warm = "warm"
    cold = "cold"
    unknown = "unknown"


@reaches
def command(  # noqa: PLR0913, PLR0917 - typer reads the options from the signature
    context: typer.Context,
    reaching: Reaching,
    name: str = typer.Argument(..., metavar="NAME", help="Letters, digits, dot, dash, underscore; or a file.yaml."),
    words: list[str] = typer.Argument(
        None,
        metavar="[TARGET... | CASE... | -- COMMAND...]",
        help="A start that runs here or on hosts, saved cases of good starts, or a command to start. Default: the launch here.",
    ),
    from_log: str = typer.Option("", "--from-log", metavar="FILE", help="The log of a past good start."),
    engine: str = typer.Option("", "--engine", help="With --from-log: vllm or sglang, where the log leaves doubt."),
    caches: Caches = typer.Option(
        Caches.auto, help="Whether caches were filled before. Default: as it was seen to be."
    ),
    note: str = typer.Option("", "--note", help="A sentence to keep with it."),
    new: bool = typer.Option(False, "--new", help="Replace what is recorded under that name instead of merging."),
    timeout: float = typer.Option(3600.0, min=1.0, help="Seconds to wait for ready."),
) -> int:
    """Record a start until it is ready: phases with times, lines, processes. A further run of the same is merged."""
    path = _path(name)
    try:
        found = _recorded(
            path.stem, words or [], from_log, engine, timeout, reaching, started="--" in (context.obj or ())
        )
        found = [_with(one, caches.value, note) for one in found]
        before = None if new or not path.exists() else store.read(path)
        result = before or found[0]
        for one in found if before is not None else found[1:]:
            result = merged(result, one)
        store.write(result, path)
    except (NotGood, Different, CannotStart) as error:
        raise exits.Stop(f"not recorded: {error}", "--new replaces what is there" if isinstance(error, Different) else "",
                         exits.USAGE) from None  # fmt: skip
    except store.BaselineError as error:
        raise exits.Stop(str(error)) from None
    ready = result.runs[-1].ready_s
    after = f", ready after {ready:.0f} s" if ready is not None else ""
    runs = f"{len(result.runs)} run{'s' if len(result.runs) > 1 else ''}"
    screen.write(f"{path}: {runs} of {_title(result.configuration)}{after}\n")
    return exits.OK


def _path(name: str) -> Path:
    try:
        if name.endswith((".yaml", ".yml")):
            store.checked_name(Path(name).stem)
            return Path(name)
        return store.user_folder() / f"{store.checked_name(name)}.yaml"
    except store.BaselineError as error:
        raise exits.Stop(str(error)) from None


def _with(one: Baseline, caches: str, note: str) -> Baseline:
    one = replace(one, provenance=replace(one.provenance, note=note)) if note else one
    if caches == Caches.auto:
        return one
    runs = tuple(replace(run, caches=caches) for run in one.runs)
    return replace(one, runs=runs, configuration=replace(one.configuration, caches=caches))


def _title(one: Configuration) -> str:
    return " ".join(word for word in (one.engine, one.version or "", one.model or "") if word)


def _recorded(
    name: str, words: list[str], from_log: str, engine: str, timeout: float, reaching: Reaching, *, started: bool
) -> list[Baseline]:
    if from_log:
        if words:
            raise exits.Stop("--from-log takes no further target")
        try:
            return [baseline_of_log(Path(from_log), name, engine or None)]
        except OSError as error:
            raise exits.Stop(f"{from_log} cannot be read: {error.strerror}", "", exits.UNREACHABLE) from None
    if started:
        if not words:
            raise exits.Stop("no command after --", f"hangdoc record-baseline {name} -- vllm serve MODEL")
        with recording.started(words) as child:
            screen.note(f"hangdoc: its output goes to {child.log} until it is recorded; it is ended then")
            return [_watched(name, Targets(pid=child.pid), Reaching(), timeout)]
    targets = parse(words)
    if targets.cases:
        return [_of_case(name, path) for path in targets.cases]
    return [_watched(name, targets, reaching, timeout)]


def _watched(name: str, targets: Targets, reaching: Reaching, timeout: float) -> Baseline:
    with channel_to(targets, reaching) as channel:
        first = target.scan(channel)
        launch = target.choose(channel, first, pid_of(channel, targets))
        recorder, by = recording.record(channel, launch, first, Options(timeout_s=timeout))
        return recorder.baseline(name, by)


def _of_case(name: str, path: Path) -> Baseline:
    try:
        header, samples = casefile.read(path)
        recorder = Recorder(header.root)
        for sample in samples:
            recorder.add(sample)
    except FileNotFoundError:
        raise exits.Stop(f"{path} is neither a PID nor a file", "a case is what --save wrote") from None
    except OSError as error:
        raise exits.Stop(f"{path} cannot be read: {error.strerror}", "", exits.UNREACHABLE) from None
    except casefile.CaseError as error:
        raise exits.Stop(str(error)) from None
    return recorder.baseline(name, "case")
