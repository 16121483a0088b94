"""Whether a request is meant for this machine: the rule of every local web server of ours.

A foreign page that points a name of its own at 127.0.0.1 would otherwise use the server from the user's browser.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "[::1]")
USUAL_PORT = 8765


def misdirected(hosts: Sequence[str], port: int, address: str = HOST) -> str | None:
    """Why a request with these Host headers is not answered; None where it is. `address` is the one listened at."""
    expected = [f"{name}:{port}" for name in (*NAMES, address)]
    if len(hosts) == 1 and hosts[0].lower() in expected:
        return None
    advice = f"open http://{address}:{port}/, from elsewhere through ssh -L {port}:{HOST}:{port} HOST"
    return f"the host asked for is {list(hosts)!r:.80}; {advice}"


def listen(port: int | None, address: str = HOST) -> socket.socket:
    """A socket at `port`; None is the usual one or, where it is taken, any free one."""
    if port is not None and not 0 <= port <= 65535:
        raise ConfigError(f"port is {port}; use 1 to 65535, or 0 for any free one")
    try:
        listening = socket.create_server((address, USUAL_PORT if port is None else port), backlog=128)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return listen(0, address)
        reason = "is taken by another program" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise ConfigError(f"port {port} {reason}; choose another, or 0 for any free one") from error
    # Connections inherit it; asyncio would set it only on sockets made with the protocol's number. Without it an
    # answer's body waits until the client has acknowledged its head, which clients put off for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
