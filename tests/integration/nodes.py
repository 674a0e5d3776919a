"""The miniature server over several nodes, one on each of the hosts of `sshosts`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sshosts import Host, Site

from hangdoc.demo.stage import MINIATURE

PORT = 30000


class Nodes:
    """Nodes that were started; `stamp` is written by a rank that dead-locks."""

    def __init__(self, site: Site, hang: int | None = None) -> None:
        self.site, self.hang = site, hang
        self.folder = site.folder / "nodes"
        self.stamp = self.folder / "stamp"
        model = self.folder / "model"
        model.mkdir(parents=True)
        for number in (1, 2):
            (model / f"model-{number:05d}-of-00002.safetensors").write_bytes(bytes(1 << 20))
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, host: Host, node: int, address: str, nodes: int = 2) -> None:
        """One node on a host."""
        words = ["-m", "sglang.launch_server", "--model-path", str(self.folder / "model"), "--tp", str(nodes)]
        words += ["--port", str(PORT), "--nnodes", str(nodes), "--node-rank", str(node), "--dist-init-addr", address]
        env = {name: value for name, value in os.environ.items() if not name.startswith("MINIATURE_")}
        env |= {
            "PYTHONPATH": str(MINIATURE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
            "MINIATURE_SECONDS": "240", "MINIATURE_STAMP": str(self.stamp),
        }  # fmt: skip
        if self.hang is not None:
            env["MINIATURE_HANG"] = str(self.hang)
        with self.log(node).open("ab") as log:
            self._started.append(
                subprocess.Popen(
                    [*host.enter, sys.executable, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                    start_new_session=True,
                )
            )  # fmt: skip

    def log(self, node: int) -> Path:
        """The log of a node."""
        return self.folder / f"node{node}.log"

    def wait_for(self, node: int, text: str, seconds: float = 60.0) -> None:
        """Until a line of a node holds the text."""
        deadline = time.monotonic() + seconds
        while text not in self.log(node).read_text(errors="replace"):
            assert time.monotonic() < deadline, self.log(node).read_text(errors="replace")[-2000:]
            time.sleep(0.1)

    def wait_for_stamp(self, seconds: float = 60.0) -> int:
        """The pid of the rank that dead-locked, as its host knows it."""
        deadline = time.monotonic() + seconds
        while not (self.stamp.exists() and self.stamp.read_text()):
            assert time.monotonic() < deadline, "nothing dead-locked"
            time.sleep(0.1)
        return int(self.stamp.read_text())

    def end(self) -> None:
        """End what was started."""
        for one in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait(20)


@contextlib.contextmanager
def nodes(site: Site, addresses: Sequence[str], hang: int | None = None) -> Iterator[Nodes]:
    """Nodes on the first hosts of a site, each told to meet at its address; an empty one is not started."""
    made = Nodes(site, hang)
    try:
        for number, address in enumerate(addresses):
            if address:
                made.start(site.hosts[number], number, address)
        yield made
    finally:
        made.end()
