"""Health paths of real servers: good, silent, slow, of another protocol, absent."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hangdoc.agent.isolate import Nursery
from hangdoc.agent.tick import Ticker
from hangdoc.model.ask import Ask, HealthAsk
from hangdoc.model.sample import Health
from hangdoc.probes import health


@contextmanager
def server(answer: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[int]:
    """Accept one connection, hand it to `answer`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        listener.settimeout(10)

        def serve() -> None:
            link, _ = listener.accept()
            with link:
                answer(link)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def ask(port: int, deadline: float = 2.0) -> Health:
    return health.Question("/proc", HealthAsk(os.getpid(), port, "/health")).answer(deadline)


def test_a_status_and_the_request_that_asked_for_it() -> None:
    seen = []

    def answer(link: socket.socket) -> None:
        seen.append(link.recv(4096))
        link.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

    with server(answer) as port:
        found = ask(port)
    assert (found.status, found.detail) == (503, "")
    assert seen[0].startswith(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())


def test_a_proxy_in_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with server(lambda link: link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        assert ask(port).status == 200


def test_one_that_accepts_and_never_answers() -> None:
    stop = threading.Event()

    def answer(_: socket.socket) -> None:
        stop.wait(10)

    with server(answer) as port:
        found = ask(port, 0.3)
        stop.set()
    assert (found.status, found.detail) == (None, "no answer in 0.3 s")
    assert 0.25 < found.seconds < 2


def test_one_that_drips_does_not_stretch_the_deadline() -> None:
    def answer(link: socket.socket) -> None:
        try:
            for byte in b"HTTP/1.":
                link.sendall(bytes([byte]))
                time.sleep(0.1)
        except OSError:
            pass

    with server(answer) as port:
        began = time.monotonic()
        assert ask(port, 0.3).detail == "no answer in 0.3 s"
        assert time.monotonic() - began < 2


def test_a_listener_that_never_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert ask(listener.getsockname()[1], 0.2).detail == "no answer in 0.2 s"


@pytest.mark.parametrize(
    ("said", "detail"),
    [(b"SSH-2.0-OpenSSH\r\n", "not HTTP"), (b"\x15\x03\x01\x00", "not HTTP (TLS?)"), (b"", "closed without an answer")],
)
def test_others(said: bytes, detail: str) -> None:
    def answer(link: socket.socket) -> None:
        link.recv(4096)
        link.sendall(said)

    with server(answer) as port:
        found = ask(port)
    assert (found.status, found.detail) == (None, detail)


def test_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert ask(port).detail == "refused"


@pytest.mark.parametrize("port", [0, 65536, 99999, -1])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    wanted = HealthAsk(os.getpid(), port, "/health")
    assert health.addresses("/proc", wanted) == []
    assert health.Question("/proc", wanted).answer(2.0).detail == "refused"


def test_a_server_on_one_address_only() -> None:
    with server(lambda link: link.sendall(b"HTTP/1.1 200 OK\r\n\r\n"), "127.0.0.2") as port:
        assert ask(port).status == 200


def test_ipv6_only() -> None:
    try:
        with server(lambda link: link.sendall(b"HTTP/1.1 200 OK\r\n\r\n"), "::1") as port:
            assert ask(port).status == 200
    except OSError:
        pytest.skip("no IPv6 here")


@pytest.mark.parametrize("sign", [None, lambda: None], ids=["a child at once", "a child for what lasts"])
def test_a_slow_server_is_asked_once_and_waited_for(sign: Callable[[], None] | None) -> None:
    """A health check may run a token: it must not be asked twice because the first wait was short."""
    asked = []

    def answer(link: socket.socket) -> None:
        asked.append(link.recv(4096))
        time.sleep(0.5)
        link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    with server(answer) as port:
        wanted = HealthAsk(os.getpid(), port, "/health")
        nursery = Nursery(sign=sign)
        sample = Ticker(nursery).answer(Ask(1, ("health",), pids=(os.getpid(),), health=[wanted]))
    (found,) = sample["health"]
    assert found["status"] == 200
    assert found["seconds"] >= 0.5
    assert len(asked) == 1
    assert not nursery.keep


def test_the_answer_stays() -> None:
    with server(lambda link: link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        question = health.Question("/proc", HealthAsk(os.getpid(), port, "/health"))
        first = question.go_on(time.monotonic() + 5)
        assert first is not None
        assert first.status == 200
        question.close()
        assert question.answer(0.1) is first
