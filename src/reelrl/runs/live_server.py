"""A web page on this machine that shows a job while it runs.

    with LiveServer(page_html) as server:
        print(server.url)
        server.publish({"frame": 12, "input": "data:image/png;base64,..."})

The page listens to `/events` (`new EventSource("/events")`) and gets the newest message as JSON. One thread serves
everybody; a client takes the newest message when it is ready for one, and what it missed is gone. So a slow client, or
one that does not read at all, costs the job nothing.

Only requests that name this machine as their host are answered (`local_hosts`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from reelrl.runs.local_hosts import HOST, listen, misdirected
from reelrl.runs.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_CLIENTS = 16
"""Who listen to the events at once."""
MOST_CONNECTIONS = 256
"""Beyond these the oldest one that has not been answered gives way."""
SILENCE_S = 5.0  # between signs of life to a client, and how long one may take to swallow a message
ASKING_S = 5.0  # from connecting to the end of the answer, however slowly a client speaks and reads
LAST_WORDS_S = 1.0  # for the last message to those who read
_LONGEST_HEAD = 1 << 14
_TEXT = "text/plain; charset=utf-8"


class LiveServer:
    """Serves one page and the newest message. `port` None is the usual one or, where it is taken, any free one."""

    def __init__(self, page: str, port: int | None = None) -> None:
        self._page = page.encode()
        self._latest = (0, b"")  # number and text of the newest message
        self._clients = 0
        self._closed = False
        self._socket = listen(port)
        self._port: int = self._socket.getsockname()[1]
        self._news, self._ending = asyncio.Event(), asyncio.Event()
        self._connections: dict[asyncio.Task[None], None] = {}  # oldest first
        self._asking: dict[asyncio.Task[None], None] = {}  # those of them that are not answered yet
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}/"

    @property
    def watched(self) -> bool:
        """Whether anyone is looking; while nobody is, there is no need to draw."""
        return self._clients > 0

    def publish(self, message: Mapping[str, Any]) -> None:
        """Let all clients have this message next, instead of any that they have not taken yet."""
        text = json.dumps(to_plain(message), separators=(",", ":")).encode()
        self._latest = self._latest[0] + 1, text
        with suppress(RuntimeError):  # after the end nobody is there to hear of it
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Send the last message to those who read, and end. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in the server's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._loop.set_exception_handler(lambda *_: None)  # a client that went away is no news
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._socket, limit=_LONGEST_HEAD)
        await self._ending.wait()
        server.close()
        self._wake()
        for task in self._asking:
            task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=LAST_WORDS_S)
        for task in self._connections:
            task.cancel()
        while self._connections:
            await asyncio.wait(list(self._connections))
        await asyncio.sleep(0)  # closed sockets are let go of in the loop's next round

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._meet(reader, writer))
        self._connections[task] = self._asking[task] = None
        task.add_done_callback(partial(self._forget, writer))
        if len(self._asking) > MOST_CONNECTIONS:
            oldest = next(iter(self._asking))
            del self._asking[oldest]
            oldest.cancel()

    def _forget(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        writer.transport.abort()
        self._asking.pop(task, None)
        del self._connections[task]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        # What waits in buffers is old when it arrives, so they are kept small.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        writer.transport.set_write_buffer_limits(high=0)
        with suppress(OSError, TimeoutError, EOFError):
            if await self._answer(reader, writer):
                await self._events(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the one request of a connection; whether the client now listens to events."""
        async with asyncio.timeout(ASKING_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                head = b""
            status, kind, body = self._response(head)
            length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
            more = "Allow: GET, HEAD\r\n" if status == HTTPStatus.METHOD_NOT_ALLOWED else ""
            writer.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n{length}{more}"
                "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode()
            )
            wanted = not head.startswith(b"HEAD ")
            if body is None and wanted:
                return True
            writer.write(body if body and wanted else b"")
            await writer.drain()
            writer.write_eof()
            while await reader.read(1 << 16):  # closing before all is read would take the answer back
                pass
            return False

    def _response(self, head: bytes) -> tuple[HTTPStatus, str, bytes | None]:
        """Status, type and body of the answer; None is the stream of events."""
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return HTTPStatus.BAD_REQUEST, _TEXT, b"this is no HTTP request, or one with too long a head\n"
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        if why := misdirected(hosts, self._port):
            return HTTPStatus.MISDIRECTED_REQUEST, _TEXT, f"{why}\n".encode()
        if words[0] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"there is only GET and HEAD\n"
        if words[1] == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", self._page
        if words[1] != "/events":
            return HTTPStatus.NOT_FOUND, _TEXT, b"there is only / and /events\n"
        if self._closed or self._clients >= MOST_CLIENTS:
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"too many clients\n"
        return HTTPStatus.OK, "text/event-stream", None

    async def _events(self, writer: asyncio.StreamWriter) -> None:
        """Messages, the newest first and then each that is the newest when the client is ready for one."""
        self._asking = {task: None for task in self._asking if task is not asyncio.current_task()}
        self._clients += 1
        seen = 0
        try:
            while True:
                if self._latest[0] == seen and not self._closed:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), SILENCE_S)
                number, text = self._latest
                if number == seen and self._closed:
                    return
                # A comment line when there is no news: it finds out whether the client is still there.
                writer.write(b"data: " + text + b"\n\n" if number > seen else b": \n\n")
                async with asyncio.timeout(SILENCE_S):
                    await writer.drain()
                seen = number
        finally:
            self._clients -= 1
