"""A web page on this machine that shows a job while it runs.

    with LiveServer(page_html) as server:
        print(server.url)
        server.publish({"frame": 12, "input": "data:image/png;base64,..."})

The page listens to `/events` (`new EventSource("/events")`) and gets the newest message as JSON. Each client has a
thread of its own and takes the newest message when it is ready for one; what it missed is gone. So a slow client, or
one that does not read at all, costs the job nothing.
"""

from __future__ import annotations

import errno
import json
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from reelrl.errors import ConfigError
from reelrl.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "127.0.0.1"
USUAL_PORT = 8765
MOST_CLIENTS = 16
SILENCE_S = 5.0  # between signs of life to a client, and how long one may take to swallow a message


class LiveServer:
    """Serves one page and the newest message. `port` None is the usual one or, where it is taken, any free one."""

    def __init__(self, page: str, port: int | None = None) -> None:
        self._page = page.encode()
        self._news = threading.Condition()
        self._message = b""
        self._number = 0
        self._clients = 0
        self._closed = False
        self._server = _bind(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="live", args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/"

    @property
    def watched(self) -> bool:
        """Whether anyone is looking; while nobody is, there is no need to draw."""
        return self._clients > 0

    def publish(self, message: Mapping[str, Any]) -> None:
        """Let all clients have this message next, instead of any that they have not taken yet."""
        text = json.dumps(to_plain(message), separators=(",", ":")).encode()
        with self._news:
            self._message = text
            self._number += 1
            self._news.notify_all()

    def close(self) -> None:
        """Send the last message to those who read, and end. A second call does nothing."""
        with self._news:
            if self._closed:
                return
            self._closed = True
            self._news.notify_all()
            self._news.wait_for(lambda: self._clients == 0, timeout=1.0)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _join(self) -> bool:
        with self._news:
            if self._closed or self._clients >= MOST_CLIENTS:
                return False
            self._clients += 1
            return True

    def _leave(self) -> None:
        with self._news:
            self._clients -= 1
            self._news.notify_all()

    def _next(self, seen: int) -> tuple[int, bytes | None]:
        """The newest message after number `seen`, waited for; no text where there was none, None at the very end."""
        with self._news:
            self._news.wait_for(lambda: self._number > seen or self._closed, timeout=SILENCE_S)
            if self._number > seen:
                return self._number, self._message
            return seen, None if self._closed else b""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that does not read must not hold up the end
    live: LiveServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = SILENCE_S
    server: _Server

    def setup(self) -> None:
        # What waits in the system's buffers is old when it arrives, so they are kept small.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        super().setup()

    def do_GET(self) -> None:
        live = self.server.live
        if self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", live._page)
        elif self.path != "/events":
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is only / and /events\n")
        elif not live._join():
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"too many clients\n")
        else:
            try:
                self._events(live)
            finally:
                live._leave()

    def _events(self, live: LiveServer) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        seen, text = live._next(0)
        while text is not None:
            # A comment line when there is no news: it finds out whether the client is still there.
            self.wfile.write(b"data: " + text + b"\n\n" if text else b": \n\n")
            seen, text = live._next(seen)

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not worth a line."""


def _bind(live: LiveServer, port: int | None) -> _Server:
    if port is not None and not 0 <= port <= 65535:
        raise ConfigError(f"port is {port}; use 1 to 65535, or 0 for any free one")
    try:
        server = _Server((HOST, USUAL_PORT if port is None else port), _Handler)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return _bind(live, 0)
        reason = "is taken by another program" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise ConfigError(f"port {port} {reason}; choose another, or 0 for any free one") from error
    server.live = live
    return server
