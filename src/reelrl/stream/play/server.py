"""The server in a thread of its own, for the command, for tests and for browsers that this program drives.

with PlayServer(Show(folder=Path("site"), controllers={"bola": load_bitrate_controller("bola")})) as server:
    print(server.url)
"""

from __future__ import annotations

import ipaddress
import threading
from typing import TYPE_CHECKING, Self

import uvicorn

from reelrl.errors import ConfigError
from reelrl.runs.local_hosts import HOST, listen
from reelrl.stream.play.app import make_app
from reelrl.stream.play.guard import IDLE_S, Guard, ImpatientProtocol
from reelrl.stream.play.sessions import PlaySessions

if TYPE_CHECKING:
    from reelrl.stream.play.service import Show

MOST_CONNECTIONS = 2000
LONGEST_HEAD = 1 << 14
LAST_WORDS_S = 1.0


class PlayServer:
    """Serves from when it is made to `close`. `port` None is the usual one or, where it is taken, any free one."""

    def __init__(self, show: Show, port: int | None = None, address: str = HOST) -> None:
        _check_address(address)
        show.rehearse()
        self.sessions = PlaySessions()
        app = make_app(show, self.sessions)
        self._socket = listen(port, address)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{address}:{self.port}/"
        self._server = uvicorn.Server(
            uvicorn.Config(
                Guard(app, address, self.port),
                http=ImpatientProtocol,
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=int(IDLE_S),
                timeout_graceful_shutdown=int(LAST_WORDS_S),
                h11_max_incomplete_event_size=LONGEST_HEAD,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="play", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._server.server_state.connections)

    def wait(self) -> None:
        """Until it ends, or Ctrl+C."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Let answers under way end, for a moment, and stop. A second call does nothing."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_address(address: str) -> None:
    try:
        wrong = ipaddress.ip_address(address).is_unspecified
    except ValueError:
        wrong = True
    if wrong:
        raise ConfigError(f"host {address!r} is not one address; give the one that players will ask for, e.g. {HOST}")
