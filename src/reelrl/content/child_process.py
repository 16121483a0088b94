"""A process of ours that sends pictures by a pipe, and may die or hang without taking the reader along.

    parent  ◄── pipe ── python -m MODULE FD... NAME ...

The parent's side is `ChildProcess`, whose classes say what a message holds; `answer_errors` is the child's. The pipe is
the buffer: the child stops when it is full and ends when nobody holds the other side, however that came.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from reelrl.errors import ConfigError, ContentError, ReelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

READY, WRONG_NAME, FAILURE = b"r", b"w", b"x"
PIPE_BYTES = 1 << 20  # ten Atari pictures; what an ordinary user may ask for
DEADLINE_S = 120.0  # without a picture; coming back into a long episode takes some seconds


class ChildProcess:
    """`python -m MODULE FD [FD] ARGUMENTS`: what it sends can be read, and with `listens` it can be written to."""

    HEADER: ClassVar[struct.Struct]
    """How a message begins: a letter for its kind, then a number, which of a failure is the length of its text."""

    def __init__(
        self, module: str, name: str, arguments: Sequence[object], *, listens: bool = False, holds: Sequence[int] = ()
    ) -> None:
        """`holds` are descriptors that the child gets under their numbers here."""
        self.name = name
        self.received = 0
        self.deadline_s = DEADLINE_S
        self._pipe, theirs = os.pipe()
        orders, self._words = os.pipe() if listens else (-1, -1)
        passed = [each for each in (theirs, orders) if each >= 0]
        with suppress(OSError):  # a pipe of the usual size works too, with less ahead
            fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            # A session of its own: Ctrl+C is for the reader, who ends the child when it is done with it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, passed), name, *map(str, arguments)],
                pass_fds=[*passed, *holds],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for each in passed:
                os.close(each)
        try:
            self._ready = self._header()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """End the process at once, so that a thread that waits for it gets an error; `close` is still due."""
        self._process.kill()

    def close(self) -> None:
        """End the process. A second call does nothing."""
        if self._pipe < 0:
            return
        self._close_pipes()
        try:
            self._process.wait(1)  # it ends by itself at its next picture
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_pipes(self) -> None:
        for each in (self._pipe, self._words):
            if each >= 0:
                os.close(each)
        self._pipe = self._words = -1

    def _header(self) -> tuple[Any, ...]:
        header = bytearray(self.HEADER.size)
        self._fill(memoryview(header))
        fields = self.HEADER.unpack(header)
        if fields[0] in (WRONG_NAME, FAILURE):
            text = bytearray(fields[1])
            self._fill(memoryview(text))
            raise (ConfigError if fields[0] == WRONG_NAME else ContentError)(text.decode())
        return fields

    def _fill(self, view: memoryview) -> None:
        if self._pipe < 0:
            raise ContentError(f"{self.name} was closed; open it anew")
        done = 0
        while done < len(view):
            if not select.select([self._pipe], [], [], self.deadline_s)[0]:
                raise ContentError(
                    f"{self.name} gave no picture for {self.deadline_s:g} s, after {self.received}; "
                    "it hangs or is too slow: try it alone"
                )
            count = os.readv(self._pipe, [view[done:]])
            if not count:
                raise self._dead()
            done += count

    def _say(self, words: bytes) -> None:
        if self._words < 0:
            raise ContentError(f"{self.name} was closed; open it anew")
        try:
            send(self._words, words)
        except BrokenPipeError:
            self._header()  # its last words say why, where there are any
            raise self._dead() from None

    def _dead(self) -> ContentError:
        return ContentError(
            f"{self.name} died ({self._how_it_ended()}) after {self.received} pictures; "
            "resume from the last checkpoint, and look at what it said above"
        )

    def _how_it_ended(self) -> str:
        status = self._process.wait(10)
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def answer_errors(pipe: int, name: str, header: struct.Struct, work: Callable[[], None]) -> None:
    """Do the child's work; what goes wrong becomes a message, and nobody who listens an end."""
    try:
        work()
    except BrokenPipeError:
        pass
    except ReelError as error:
        _send_text(pipe, header, WRONG_NAME if isinstance(error, ConfigError) else FAILURE, str(error))
    except Exception as error:  # noqa: BLE001  an environment is foreign code
        traceback.print_exc()
        _send_text(pipe, header, FAILURE, f"{name} failed with {type(error).__name__}: {error}")


def send(pipe: int, *parts: memoryview | bytes) -> None:
    for part in parts:
        view, done = memoryview(part).cast("B"), 0
        while done < len(view):
            done += os.write(pipe, view[done:])


def message(header: struct.Struct, kind: bytes, first: int = 0) -> bytes:
    """A header with nothing in it but its kind and first number."""
    return kind + struct.pack("<I", first) + bytes(header.size - 5)


def _send_text(pipe: int, header: struct.Struct, kind: bytes, text: str) -> None:
    data = text.encode()
    with suppress(BrokenPipeError):
        send(pipe, message(header, kind, len(data)), data)
