"""Plain JSON values back into the classes of `model` that the agent itself needs, without msgspec.

Unknown fields are dropped, as the reader on the other side does: a newer hangdoc may have written them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Dict, FrozenSet, Mapping, Type, TypeVar

from ..model.ask import Ask, HealthAsk
from ..model.sample import Fd, FutexWait, Io, Process, Thread

T = TypeVar("T")
_NAMES: Dict[type, FrozenSet[str]] = {}


def _known(kind: Type[T], plain: Mapping[str, Any]) -> Dict[str, Any]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = frozenset(one.name for one in fields(kind))  # type: ignore[arg-type]
    return {name: value for name, value in plain.items() if name in names}


def _tuples(values: Dict[str, Any], *names: str) -> Dict[str, Any]:
    for name in names:
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    return values


def ask(plain: Any) -> Ask:
    """An Ask. ValueError when it is none."""
    if not isinstance(plain, dict) or not isinstance(plain.get("id"), int) or not isinstance(plain.get("probes"), list):
        raise ValueError("not an Ask: it needs id and probes")  # noqa: TRY004 - one kind of error for all
    values = _tuples(_known(Ask, plain), "probes", "logs", "check_files")
    try:
        values["health"] = [HealthAsk(**_known(HealthAsk, one)) for one in values.get("health", [])]
        values["log_offsets"] = {str(path): int(offset) for path, offset in values.get("log_offsets", {}).items()}
        values["deadline_s"] = float(values.get("deadline_s", Ask.deadline_s))
        for name in ("pids", "needed", "stack_pids", "thread_pids", "wait_pids", "deep_pids"):
            if values.get(name) is not None:
                values[name] = tuple(int(one) for one in values[name])
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not an Ask: {error}") from error
    return Ask(**values)


def thread(plain: Mapping[str, Any]) -> Thread:
    """A Thread."""
    values = _tuples(_known(Thread, plain), "args", "poll")
    if values.get("futex") is not None:
        values["futex"] = FutexWait(**_known(FutexWait, values["futex"]))
    return Thread(**values)


def fd(plain: Mapping[str, Any]) -> Fd:
    """An Fd."""
    return Fd(**_tuples(_known(Fd, plain), "watched", "locks"))


def process(plain: Mapping[str, Any]) -> Process:
    """A Process with its descriptors; its threads, which no probe of the agent needs again, are left out."""
    values = _tuples(_known(Process, plain), "nspid", "cmdline", "shared", "weights", "libraries")
    for name in ("threads", "stacks", "gil", "glance", "native", "trace", "kernel_stacks"):
        values.pop(name, None)
    if values.get("io") is not None:
        values["io"] = Io(**_known(Io, values["io"]))
    if values.get("fds") is not None:
        values["fds"] = {int(number): fd(one) for number, one in values["fds"].items()}
    return Process(**values)
