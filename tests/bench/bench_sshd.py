"""Sixteen hosts with an sshd each, two of them dead: one launch over all of them, diagnosed over ssh.

The hosts are namespaces of our own (tests/integration/sshosts.py), so all of them share the CPUs of this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness import Row

sys.path.insert(0, str(Path(__file__).parent.parent / "integration"))

import sshosts
from nodes import Nodes

BAR_S = 5.0
HOSTS, DEAD, LOOKS = 16, 2, 3
WHAT = f"{HOSTS} sshd hosts, {DEAD} dead: beyond the window"
MEET = "10.77.0.11:29500"


def _look(site: sshosts.Site) -> float:
    words = [sys.executable, "-m", "hangdoc", "diagnose", f"gpu[01-{HOSTS}]", "--json"]
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, env=site.environ(), timeout=120, check=False)
    took = time.monotonic() - began
    report = json.loads(done.stdout.splitlines()[-1])
    lost = {row["host"] for row in report["unseen"] if row["probe"] == "reach"}
    if len(lost) != DEAD:
        raise RuntimeError(f"{len(lost)} hosts lost, {DEAD} are dead: {done.stderr[-500:]}")
    return float(took - report["hangdoc"]["window_s"])


def rows() -> Iterator[Row]:
    """Time that a diagnosis of all hosts takes beyond the window that it looks at, each look by itself."""
    why = sshosts.missing()
    if why:
        yield Row(WHAT, f"<= {BAR_S:.0f} s", why)
        return
    with tempfile.TemporaryDirectory() as folder, sshosts.site(Path(folder), HOSTS) as site:
        nodes = Nodes(site)
        try:
            for number, host in enumerate(site.hosts[: HOSTS - DEAD]):
                nodes.start(host, number, MEET, nodes=HOSTS)
            time.sleep(10.0)  # until they all wait for the two
            for host in site.hosts[HOSTS - DEAD :]:
                site.unplug(host)
            taken = sorted(_look(site) for _ in range(LOOKS))
        finally:
            nodes.end()
    said = ", ".join(f"{one:.1f}" for one in taken)
    yield Row(WHAT, f"<= {BAR_S:.0f} s", f"{said} s", ok=taken[len(taken) // 2] <= BAR_S)
