"""The HTTP side: it listens once the schedulers are up, sends itself one request to warm up, and is ready."""

from __future__ import annotations

import argparse
import http.server
import threading
import time
import urllib.request
from multiprocessing.connection import Connection

from sglang.srt.entrypoints.engine import launch_subprocesses
from sglang.srt.process import say


class _Handler(http.server.BaseHTTPRequestHandler):
    ready = False

    def do_GET(self) -> None:
        """/health answers 503 until the warm-up is over, everything else 200."""
        self.send_response(200 if self.ready or self.path != "/health" else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: ARG002 - named by the base class
        """The access log, as uvicorn writes it."""
        say(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {args[1]} OK')


def launch_server(args: argparse.Namespace) -> None:
    """Start everything and serve for ever."""
    shown = {"model_path": args.model_path, "host": args.host, "port": args.port, "tp_size": args.tp}
    say(f"server_args={shown}")
    began = time.monotonic()
    requests = launch_subprocesses(args)
    say(f"Engine startup timings (s): scheduler_e2e={time.monotonic() - began:.2f}")
    if args.node_rank > 0:
        launch_dummy_health_check_server(args)
    _setup_and_run_http_server(args, requests)


def launch_dummy_health_check_server(args: argparse.Namespace) -> None:
    """What a node that is not the first serves: 200, whatever happens."""
    _Handler.ready = True
    with http.server.ThreadingHTTPServer((args.host, args.port), _Handler) as server:
        server.serve_forever()


def _setup_and_run_http_server(args: argparse.Namespace, requests: Connection) -> None:
    say("INFO:     Started server process")
    say("INFO:     Waiting for application startup.")
    with http.server.ThreadingHTTPServer((args.host, args.port), _Handler) as server:
        say("INFO:     Application startup complete.")
        say(f"INFO:     Uvicorn running on http://{args.host}:{args.port} (Press CTRL+C to quit)")
        threading.Thread(target=_wait_and_warmup, args=(args, requests), daemon=True).start()
        server.serve_forever()


def _wait_and_warmup(args: argparse.Namespace, requests: Connection) -> None:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"http://{args.host}:{args.port}/model_info", timeout=60
    ).close()
    _execute_server_warmup(requests)
    _Handler.ready = True
    say("The server is fired up and ready to roll!")


def _execute_server_warmup(requests: Connection) -> None:
    requests.send("generate")
    requests.recv()
