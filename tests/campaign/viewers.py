"""The live page under viewers of ill will: some never ask, some ask and hardly read; the job and good viewers go on."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError

from reelrl.runs.live_server import LiveServer

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW, IDLE = 50, 50
_MESSAGE = {"picture": "x" * 200_000}
_SERVED_WITHIN_S = 60.0
_LONGEST_PUBLISH_S = 5.0  # it waits for nobody; a busy machine may take a moment
_MOST_THREADS = 150
_MOST_MIB = 300.0


def crowd(seconds: float = 15.0) -> tuple[str, list[str]]:
    """Figures in words, and what was broken."""
    threads, files = threading.active_count(), _open_files()
    problems: list[str] = []
    with LiveServer("<p>hello</p>", 0) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        before_mib = _resident_mib()
        idle = [_connected(port) for _ in range(IDLE)]
        slow = [
            _connected(port, b"GET /events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port) for _ in range(SLOW // 2)
        ]
        slow += [_connected(port, b"GET / HT") for _ in range(SLOW - SLOW // 2)]
        longest_s, most_threads = _publish(server, slow, seconds)
        grown_mib = _resident_mib() - before_mib
        page_s = _served(server.url, lambda answer: b"hello" in answer.read())
        events_s = _served(server.url + "events", lambda answer: bool(answer.readline()), server)
    for connection in idle + slow:
        connection.close()
    left = _left(threads, files)
    figures = (
        f"publish at most {1000 * longest_s:.0f} ms, page after {page_s:.1f} s, events after {events_s:.1f} s, "
        f"{most_threads} threads, {grown_mib:+.0f} MiB"
    )
    if longest_s > _LONGEST_PUBLISH_S:
        problems.append(f"publish waited {longest_s:.1f} s for viewers")
    if max(page_s, events_s) > _SERVED_WITHIN_S:
        problems.append(f"a good viewer was not served within {_SERVED_WITHIN_S:g} s")
    if most_threads - threads > _MOST_THREADS or grown_mib > _MOST_MIB:
        problems.append(f"{most_threads} threads, {grown_mib:.0f} MiB more")
    return figures, problems + left


def _connected(port: int, words: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(words)
    return connection


def _publish(server: LiveServer, slow: list[socket.socket], seconds: float) -> tuple[float, int]:
    """A job that tells something twenty times a second, while viewers take or send a byte now and then."""
    longest_s, most_threads = 0.0, 0
    end_s = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end_s:
        started_s = time.monotonic()
        server.publish(_MESSAGE)
        longest_s = max(longest_s, time.monotonic() - started_s)
        most_threads = max(most_threads, threading.active_count())
        connection = slow[turn % len(slow)]
        connection.settimeout(0.001)
        with suppress(OSError):  # nothing to read yet, or the server has had enough of it
            _ = connection.recv(1) if turn % len(slow) < SLOW // 2 else connection.send(b"T")
        turn += 1
        time.sleep(0.05)
    return longest_s, most_threads


def _served(url: str, check: Callable[..., bool], server: LiveServer | None = None) -> float:
    """Seconds until a viewer who asks properly, and asks again when refused, is served."""
    started_s = time.monotonic()
    while time.monotonic() - started_s < _SERVED_WITHIN_S:
        if server is not None:
            server.publish({"news": 1})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if check(answer):
                    return time.monotonic() - started_s
        except (HTTPError, URLError, OSError):
            pass
        time.sleep(0.2)
    return time.monotonic() - started_s


def _left(threads: int, files: int) -> list[str]:
    end_s = time.monotonic() + 30
    while threading.active_count() > threads and time.monotonic() < end_s:
        time.sleep(0.1)
    grown, opened = threading.active_count() - threads, _open_files() - files
    return [f"after the end {grown} threads and {opened} files are left"] if grown > 0 or opened > 0 else []


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
