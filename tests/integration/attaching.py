"""Children to attach to, and questions to the part of the agent that does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from process_of import end, process_of, python

from hangdoc.agent import deep
from hangdoc.agent.isolate import Nursery
from hangdoc.model.ask import Ask
from hangdoc.model.plain import to_plain
from hangdoc.model.sample import Process
from hangdoc.probes import strace

PYSPY = Path(sys.executable).with_name("py-spy")
needs_pyspy = pytest.mark.skipif(not PYSPY.exists(), reason="no py-spy beside this Python")
needs_strace = pytest.mark.skipif(strace.find()[0] is None, reason="no strace here")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
ARCH = os.uname().machine


@contextmanager
def child(code: str, first: str = "", **options: Any) -> Iterator[Process]:
    """A Python child that runs `first`, which ends, and then `code`, once it is in it."""
    one = python(first + "print('in', flush=True)\n" + code, stdout=subprocess.PIPE, **options)
    try:
        assert one.stdout
        one.stdout.readline()
        time.sleep(0.1)
        yield process_of(one.pid)
    finally:
        end(one)


def ask(process: Process, probe: str, seconds: float = 5.0, pyspy: Path = PYSPY) -> tuple[dict[str, Any], list[Any]]:
    """(fields of the process and of the sample, what was not seen) of one question to the agent's part."""
    plain = {process.pid: to_plain(process)}
    question = Ask(1, (probe,), pids=(process.pid,), deep_pids=(process.pid,), pyspy=str(pyspy))
    unseen: list[Any] = []
    nursery = Nursery()
    fields = deep.look(nursery, "/proc", question, plain, time.monotonic() + seconds, unseen)
    assert nursery.abandoned == 0
    return {**plain[process.pid], **fields}, unseen


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path
