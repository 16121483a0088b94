"""An encoder session in a process of its own.

A library that crashes takes its process with it, and one that hangs cannot be stopped from inside. Here both happen
to a child: the caller gets an EncoderError with the child's last words, and nothing is left behind. The copies
cost under half a millisecond per CIF frame, the start about a third of a second.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any

from reelrl.encode.codecs.session import EncoderSession, Session
from reelrl.errors import EncoderError, EncoderTimeout

if TYPE_CHECKING:
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.control import Control
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

_START_S = 60.0
_GRACE_S = 2.0  # the child has a deadline of its own and reports it; only a child that does not is killed
_CHILD = "import sys; from reelrl.encode.codecs.worker import serve; serve(int(sys.argv[1]))"


class WorkerSession(Session):
    """A session in a child process: the one that survives its encoder."""

    def __init__(self, settings: EncoderSettings, *, statistics: bytes | None = None, first_pass: bool = False) -> None:
        super().__init__(settings)
        self._child: subprocess.Popen[bytes] | None = None
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        ours, theirs = Pipe()
        self._connection = ours
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        try:
            self._ask("open", _START_S, settings, statistics=statistics, first_pass=first_pass)
            _limit_blocking(ours, self._deadline_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        """Process id of the encoder, while it lives."""
        return self._child.pid if self._child is not None else None

    def statistics(self) -> bytes:
        log: bytes = self._ask("statistics", self._deadline_s)
        return log

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        self._connection.close()  # the child reads the end of the pipe and leaves
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        finally:
            self._words.close()

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            warnings.warn("a WorkerSession was dropped without close(); use it with `with`", ResourceWarning, 2)
            self.close()

    def _encode(self, frame: Frame, control: Control) -> list[Packet]:
        decision = {
            "qp": control.qp,
            "base_qp": control.base_qp,
            "offsets": control.offsets,
            "kbps": control.kbps,
        }
        packets: list[Packet] = self._ask("send", self._deadline_s, frame, **decision)
        return packets

    def _wait(self, number: int) -> list[Packet]:
        packets: list[Packet] = self._ask("receive", self._deadline_s, wait_for=number)
        return packets

    def _finish(self) -> list[Packet]:
        packets: list[Packet] = self._ask("flush", self._deadline_s)
        return packets

    @property
    def _deadline_s(self) -> float:
        return self.settings.call_deadline_s + _GRACE_S

    def _ask(self, method: str, deadline_s: float, *args: Any, **kwargs: Any) -> Any:
        if self._child is None:
            raise EncoderError(f"cannot {method}: the session is closed; open another")
        try:
            self._connection.send((method, args, kwargs))
            if not self._connection.poll(deadline_s):
                raise self._ended(
                    f"the encoder process did not {method} within {deadline_s:g} s and was killed", hung=True
                )
            value, error = self._connection.recv()
        except BlockingIOError:  # a frame is larger than the pipe: a child that does not read holds up the sending
            raise self._ended(
                f"the encoder process neither read nor wrote for {deadline_s:g} s and was killed", hung=True
            ) from None
        except (EOFError, OSError):
            raise self._ended(f"the encoder process died while it should {method}") from None
        except KeyboardInterrupt:
            self.close()  # else its answer would be taken for the next one's
            raise
        if isinstance(error, EncoderTimeout):
            self.close()
        if error is not None:
            raise error
        return value

    def _ended(self, what: str, *, hung: bool = False) -> EncoderError:
        """End the child and say how it ended."""
        child = self._child
        if child is None:
            return EncoderError(what)
        if hung:
            child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
        words = _tail(self._words)
        code = child.poll()
        self.close()
        if hung:
            return EncoderTimeout(what, words)
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with status {code}"
        return EncoderError(f"{what}: ended {how}; open another session", words)


def _limit_blocking(connection: Any, seconds: float) -> None:
    """Let reads and writes of a connection fail with BlockingIOError after so many seconds without progress."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _tail(words: Any, limit: int = 2000) -> str:
    size = words.seek(0, os.SEEK_END)
    words.seek(max(0, size - limit))
    text: str = words.read().decode("utf-8", "replace").strip()
    return text


def serve(descriptor: int) -> None:
    """The child's life: do what is asked until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the parent's to handle
    import faulthandler

    faulthandler.enable()
    connection = Connection(descriptor)
    session: EncoderSession | None = None
    try:
        while True:
            method, args, kwargs = connection.recv()
            try:
                if method == "open":
                    session = EncoderSession(*args, **kwargs)
                    answer = None
                else:
                    answer = _obey(session, method, args, kwargs)
                connection.send((answer, None))
            except Exception as error:  # noqa: BLE001 - it is raised again on the other side
                connection.send((None, error))
    except (EOFError, OSError):
        pass  # the parent is gone or done
    finally:
        os._exit(0)  # whatever the library is doing, this process ends now


def _obey(session: EncoderSession | None, method: str, args: Any, kwargs: Any) -> Any:
    if session is None:
        raise EncoderError("no session was opened")
    answer = getattr(session, method)(*args, **kwargs)
    return session.receive() if method == "send" else answer
