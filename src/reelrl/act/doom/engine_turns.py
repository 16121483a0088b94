"""The two engines of a match one after the other in every tic, for machines with fewer cores than engines.

    joiner's engine   sends its input, sleeps ............... runs the tic
    host's engine                      sends its input, runs the tic

An engine that waits for the other one's input asks the kernel for it in a loop without a pause. That costs a core,
perhaps the very one that the other engine is waiting for. Here the joiner's engine sleeps instead: players share the
sockets of their engines and make that one block. Tics are what they ever were; only when an engine reads is settled.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
from contextlib import suppress
from pathlib import Path

_PIDFD_GETFD = 438  # the system call, for which Python has no function
_PATIENCE_MS = 20


class Turns:
    """`with` it around a tic of a player's engine. This one lets engines wait in their own way."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def end(self) -> None:
        """Before an engine runs several tics at once, as for a new episode."""


class HostTurns(Turns):
    """The host's engine runs when it has the joiner's input; then the joiner's engine is woken."""

    def __init__(self, host: socket.socket | None, joiner: socket.socket) -> None:
        self._host, self._joiner = host, joiner
        self._inputs = select.poll()
        if host is not None:
            self._inputs.register(host, select.POLLIN)
        self._stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stranger.connect(("127.0.0.1", joiner.getsockname()[1]))

    def __enter__(self) -> None:
        self._inputs.poll(_PATIENCE_MS if self._host else 0)

    def __exit__(self, *_: object) -> None:
        # An engine reads until nothing is left, or something from a stranger: that wakes one that sleeps.
        self._joiner.setblocking(False)
        self._stranger.send(b"")


class JoinerTurns(Turns):
    """After a tic the joiner's engine is made to sleep while it waits in the next one."""

    def __init__(self, joiner: socket.socket) -> None:
        self._joiner = joiner

    def __exit__(self, *_: object) -> None:
        self._joiner.setblocking(True)

    def end(self) -> None:
        self._joiner.setblocking(False)


def arrange(mate: socket.socket, engine: socket.socket | None, *, is_host: bool) -> Turns:
    """The turns of a player with this socket of its engine; `mate` is its connection with the other player.

    Where the system lets nobody share sockets, as in some containers, engines wait in their own way.
    """
    if is_host:
        _, shared, _, _ = socket.recv_fds(mate, 1, 1)
        return HostTurns(engine, socket.socket(fileno=shared[0])) if shared else Turns()
    socket.send_fds(mate, [b"."], [engine.fileno()] if engine else [])
    return JoinerTurns(engine) if engine else Turns()


def engine_socket() -> socket.socket | None:
    """The UDP socket of this process's engine, shared with it; None where that is not allowed."""
    with suppress(OSError):
        for children in Path("/proc/self/task").glob("*/children"):
            for pid in children.read_text().split():
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    if entry.is_socket():
                        shared = socket.socket(fileno=_shared(int(pid), int(entry.name)))
                        if shared.type == socket.SOCK_DGRAM:
                            return shared
                        shared.close()
    return None


def _shared(pid: int, descriptor: int) -> int:
    """A descriptor of this process for what a child's descriptor is for."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.pidfd_open(pid)
    try:
        ours: int = libc.syscall(_PIDFD_GETFD, child, descriptor, 0)
    finally:
        os.close(child)
    if ours < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return ours
