"""hangdoc called as a user calls it who has hosts: through their own ssh and its configuration."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sshosts import Host, Site
from targets import eventually

from hangdoc.demo.stage import MINIATURE

PORT = 30000


def hangdoc(site: Site, *words: object, timeout: float = 90, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command where `ssh` reaches the hosts."""
    return subprocess.run(
        [sys.executable, "-m", "hangdoc", *map(str, words)],
        capture_output=True,
        text=True,
        env=site.environ(env),
        timeout=timeout,
        check=False,
    )


def told(done: subprocess.CompletedProcess[str], status: int | None = None) -> Any:
    """The last line of JSON that a command printed."""
    assert status is None or done.returncode == status, done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def server(site: Site, host: Host, *, hang: bool = False, seconds: int = 600) -> Iterator[Path]:
    """The miniature server on a host; gives its log when it is ready, or dead-locked with `hang`."""
    folder = site.folder / f"server-{host.name}-{time.monotonic_ns()}"
    (folder / "model").mkdir(parents=True)
    for number in (1, 2):
        (folder / "model" / f"model-{number:05d}-of-00002.safetensors").write_bytes(bytes(1 << 20))
    words = ["-m", "sglang.launch_server", "--model-path", str(folder / "model"), "--tp", "2", "--port", str(PORT)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MINIATURE_")}
    env |= {
        "PYTHONPATH": str(MINIATURE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
        "MINIATURE_SECONDS": str(seconds), "MINIATURE_STAMP": str(folder / "stamp"),
    }  # fmt: skip
    if hang:
        env["MINIATURE_HANG"] = "1"
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*host.enter, sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=True,
        )
    try:
        if hang:
            eventually((folder / "stamp").exists, 60)
        else:
            eventually(lambda: "fired up" in (folder / "log").read_text(), 60)
        yield folder / "log"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        # nsenter forks into the pid namespace: what it started there ends with its host, or here
        script = f"for p in $(grep -l {folder} /proc/[0-9]*/cmdline); do kill -9 $(echo $p | tr -cd 0-9); done"
        subprocess.run([*host.enter, "sh", "-c", script], check=False, capture_output=True, timeout=20)
