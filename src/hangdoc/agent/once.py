"""The agent by hand, where hangdoc itself cannot reach: `python3 FILE [PID…] > host.case` looks a few times at a launch.

What it prints is a case, which `hangdoc diagnose` reads: a header, then one sample a line.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any, Dict, List, Tuple

from .. import __version__
from ..model.ask import Ask
from ..probes import DEEP, PROBES
from .isolate import Nursery
from .tick import Ticker

SCHEMA = "hangdoc.case/1"
LOOKS = 8  # a fact is definite when it was stable for 5 s
_PAUSE_S = 1.0
_DEADLINE_S = 10.0
_ENGINES = re.compile(r"vllm|sglang", re.IGNORECASE)
_OFTEN = ("processes", "threads", "stacks", "logs")


def once(arguments: List[str], keep: Any = frozenset()) -> int:
    """Print the case. `keep`: descriptors that this program is imported from."""
    if not all(one.isdigit() for one in arguments):
        sys.stderr.write("usage: python3 FILE [PID...] > HOST.case; then: hangdoc diagnose HOST.case\n")
        return 2
    ticker = Ticker(Nursery(keep))
    first = ticker.answer(Ask(0, ("scan", "host"), deadline_s=_DEADLINE_S))
    pids = tuple(map(int, arguments)) or engines(first["processes"])
    if not pids:
        sys.stderr.write("hangdoc: no vLLM or SGLang process can be seen here; name any process of the launch\n")
        return 1
    root = pids[0] if arguments else 0  # 0: whoever reads it finds the launch
    _print({"schema": SCHEMA, "hangdoc": __version__, "at": first["at"], "root": root, "host": first["host"]})
    _print({"sample": first})
    everything = tuple(name for name in PROBES if name not in ("scan", "health", *DEEP))
    for number in range(1, LOOKS + 1):
        began = time.monotonic()
        probes = everything if number in (1, LOOKS) else _OFTEN
        _print({"sample": ticker.answer(Ask(number, probes, pids=pids, deadline_s=_DEADLINE_S))})
        if number < LOOKS:
            time.sleep(max(0.05, _PAUSE_S - (time.monotonic() - began)))
    return 0


def engines(found: Dict[str, Dict[str, Any]]) -> Tuple[int, ...]:
    """Processes of a scan whose command line or name speaks of an engine. Pure."""
    words = {int(pid): " ".join((one.get("comm", ""), *(one.get("cmdline") or ()))) for pid, one in found.items()}
    return tuple(sorted(pid for pid, text in words.items() if _ENGINES.search(text)))


def _print(record: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
    sys.stdout.flush()
