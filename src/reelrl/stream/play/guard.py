"""Who is answered, and for how long: the outermost layer of the server.

Requests must be meant for this machine (`runs.local_hosts`) and come from a page of the server's own, if from a page at
all. Nobody may keep a connection by asking slowly or by not reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from reelrl.runs.local_hosts import NAMES, misdirected

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ASKING_S = 5.0
"""From connecting, or from the last answer's end, to the end of a request's head; then again for its body."""
IDLE_S = 60.0
"""How long a connection may stay open between requests."""
READING_S = 20.0
"""How long a client may leave an answer unread, once the buffers are full."""
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
]


class Guard:
    """Refuses foreign requests, before anything else looks at them."""

    def __init__(self, app: ASGIApp, address: str, port: int) -> None:
        self._app = app
        self._address, self._port = address, port
        self._origins = [f"http://{name}:{port}" for name in (*NAMES, address)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        hosts = _values(scope, b"host")
        if why := misdirected(hosts, self._port, self._address):
            return JSONResponse({"error": why}, 421)
        origins = _values(scope, b"origin")
        if origins and origins not in [[origin] for origin in self._origins]:
            why = f"the request comes from a page of {origins!r:.80}; only pages of {self._origins[-1]} are answered"
            return JSONResponse({"error": why}, 403)
        return None


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


class ImpatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with deadlines where uvicorn waits for ever: for a request's head, for a reader."""

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._asking = self.loop.call_later(ASKING_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._asking is None and self._between_requests():
            self._asking = self.loop.call_later(ASKING_S, self.transport.abort)
        super().data_received(data)
        if not self._between_requests():
            self._asking = _cancel(self._asking)

    def pause_writing(self) -> None:
        self._reading = self.loop.call_later(READING_S, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._reading = _cancel(self._reading)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking, self._reading = _cancel(self._asking), _cancel(self._reading)
        super().connection_lost(exc)

    def _between_requests(self) -> bool:
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer; returns what is left of it."""
    if timer is not None:
        timer.cancel()
    return None
