"""Start the miniature: `python -m sglang.launch_server --model-path FOLDER --tp 2 --port N`.

`--nnodes 2 --node-rank N --dist-init-addr HOST:PORT` starts one node of several.
"""

from __future__ import annotations

import argparse
import signal
import sys

from sglang.srt import process
from sglang.srt.entrypoints.http_server import launch_server


def run_server() -> None:
    """Read the arguments and serve until the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--dist-init-addr", default="")
    launch_server(parser.parse_args())


if __name__ == "__main__":
    process.live_and_die_with_parent()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(0)
    )  # multiprocessing ends and collects the children on the way out
    run_server()
