"""The page of a running job: who is answered, and how little anybody who is not can do."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from reelrl.runs import live_server as live
from reelrl.runs.live_server import MOST_CONNECTIONS, LiveServer
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer("<p>the page</p>", 0) as server:
        yield server


def connect(server: LiveServer, sent: str = "") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port_of(server)), timeout=HANG_S)
    client.sendall(sent.encode())
    return client


def port_of(server: LiveServer) -> int:
    return int(server.url.rstrip("/").rpartition(":")[2])


def ask(server: LiveServer, request: str, host: str | None = None) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of the whole answer, until the server closes."""
    host = f"Host: 127.0.0.1:{port_of(server)}\r\n" if host is None else host
    with connect(server, f"{request} HTTP/1.1\r\n{host}\r\n") as client:
        head, _, body = all_of(client).partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def all_of(client: socket.socket) -> str:
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts).decode()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_this_machine_is_answered_by_any_of_its_names(server: LiveServer, name: str) -> None:
    assert ask(server, "GET /", f"Host: {name}:{port_of(server)}\r\n")[::2] == (200, "<p>the page</p>")


@pytest.mark.parametrize(
    "host",
    [
        "Host: evil.example:{port}\r\n",  # a name that its owner points at 127.0.0.1
        "Host: 127.0.0.1.evil.example:{port}\r\n",
        "Host: localhost:{port}@evil.example\r\n",
        "Host: localhost\r\n",
        "Host: localhost:1\r\n",
        "Host: localhost:{port}\r\nHost: evil.example\r\n",
        "Host:\r\n",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/events"])
def test_requests_for_another_host_are_refused_with_the_reason(server: LiveServer, host: str, path: str) -> None:
    status, _, body = ask(server, f"GET {path}", host.format(port=port_of(server)))
    assert status == 421
    assert body.startswith("the host asked for is [")
    assert f"open {server.url}" in body
    assert not server.watched


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/events", 200), ("/favicon.ico", 404)])
def test_head_gives_the_headers_of_get_and_no_body(server: LiveServer, path: str, status: int) -> None:
    found, headers, body = ask(server, f"HEAD {path}")
    assert (found, body) == (status, "")
    if path != "/events":  # whose body has no end
        assert headers == ask(server, f"GET {path}")[1]
    assert headers["connection"] == "close"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"])
def test_other_methods_are_not_allowed(server: LiveServer, method: str) -> None:
    status, headers, _ = ask(server, f"{method} /")
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_an_answer_arrives_also_where_the_request_had_a_body_that_nobody_reads(server: LiveServer) -> None:
    with connect(server, f"POST / HTTP/1.1\r\nHost: localhost:{port_of(server)}\r\n\r\n" + "x" * 300_000) as client:
        client.shutdown(socket.SHUT_WR)
        assert all_of(client).startswith("HTTP/1.1 405 ")


@pytest.mark.parametrize(
    "request_text", ["\r\n\r\n", "GET /\r\n\r\n", "\x16\x03\x01 a b\r\n\r\n", "x" * 40_000 + "\r\n\r\n"]
)
def test_what_is_no_request_is_called_so(server: LiveServer, request_text: str) -> None:
    with connect(server) as client:
        with suppress(OSError):
            client.sendall(request_text.encode())
            client.shutdown(socket.SHUT_WR)
        assert all_of(client).startswith("HTTP/1.1 400 ")


def test_a_request_that_trickles_in_is_ended_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch, server: LiveServer
) -> None:
    monkeypatch.setattr(live, "ASKING_S", 0.5)
    with connect(server, "GET / HTTP/1.1\r\n") as client:
        client.settimeout(0.05)
        start_s = time.monotonic()
        ended = False
        while not ended:
            assert time.monotonic() - start_s < HANG_S
            try:
                client.sendall(b"X: y\r\n")
                ended = client.recv(1) == b""
            except TimeoutError:
                pass
            except OSError:
                ended = True


def test_an_answer_that_nobody_takes_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ASKING_S", 0.5)
    with LiveServer("x" * (8 << 20), 0) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port_of(server)))
        client.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{port_of(server)}\r\n\r\n".encode())
        until(lambda: len(server._connections) == 1)
        until(lambda: not server._connections)


def test_slow_and_idle_connections_keep_nobody_from_being_served(server: LiveServer) -> None:
    threads = threading.active_count()
    with ExitStack() as clients:
        slow = [clients.enter_context(connect(server, "GET / HTTP/1.1\r\n")) for _ in range(50)]
        for _ in range(50):
            clients.enter_context(connect(server))
        until(lambda: len(server._connections) == 100)
        for number in range(20):
            for client in slow:
                with suppress(OSError):  # by and by they are let go
                    client.sendall(b"X")
            assert ask(server, "GET /")[0] == 200, number
        assert threading.active_count() == threads
        start_s = time.thread_time()
        for _ in range(100):
            server.publish({"frame": 1})
        assert (time.thread_time() - start_s) / 100 < 0.002


def test_beyond_the_limit_the_oldest_that_has_not_asked_gives_way(server: LiveServer) -> None:
    with ExitStack() as clients:
        listener = clients.enter_context(
            connect(server, f"GET /events HTTP/1.1\r\nHost: localhost:{port_of(server)}\r\n\r\n")
        )
        until(lambda: server.watched)
        for _ in range(MOST_CONNECTIONS + 50):
            clients.enter_context(connect(server))
        assert ask(server, "GET /")[0] == 200
        assert len(server._connections) <= MOST_CONNECTIONS + 2
        server.publish({"frame": 7})
        received = b""
        while b'data: {"frame":7}' not in received:
            received += listener.recv(65536)


def test_the_end_does_not_wait_for_those_who_say_nothing() -> None:
    server = LiveServer("page", 0)
    with ExitStack() as clients:
        for _ in range(50):
            clients.enter_context(connect(server))
        until(lambda: len(server._connections) == 50)
        server.close()
        assert not server._thread.is_alive()
    server.close()
    server.publish({"after": "the end"})
