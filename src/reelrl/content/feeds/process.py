"""A feed in a process of its own: it works ahead while the reader learns, and may die without taking the reader along.

    with FeedProcess("ale:Breakout", seed=0) as feed:
        for shot in feed: ...

    parent  ◄── pipe ── python -m reelrl.content.feeds.process FD NAME SEED EPISODE STEP

The pipe is the buffer: the feed stops when it is full and ends when nobody holds the other side, however that came.
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
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from reelrl.content.feeds.kinds import START, Position, Shot, open_feed
from reelrl.errors import ConfigError, ContentError, ReelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

# kind, then height, width, cut, episode and step of a picture; of a failure, its text's bytes and whether the name was
# wrong. The picture or the text follows.
HEADER = struct.Struct("<cIIBQQ")
READY, PICTURE, END, WRONG_NAME, FAILURE = b"r", b"p", b"e", b"w", b"x"
PIPE_BYTES = 1 << 20  # ten Atari pictures; what an ordinary user may ask for
DEADLINE_S = 120.0  # without a picture; coming back into a long episode takes some seconds


class FeedProcess:
    """The shots of a feed, from `start`. Iteration ends where the feed does."""

    def __init__(self, name: str, seed: int = 0, start: Position = START) -> None:
        self.name = name
        self.received = 0
        self.deadline_s = DEADLINE_S
        self._pipe, theirs = os.pipe()
        with suppress(OSError):  # a pipe of the usual size works too, with less ahead
            fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        command = [sys.executable, "-m", "reelrl.content.feeds.process", str(theirs), name, str(seed), *map(str, start)]
        try:
            # A session of its own: Ctrl+C is for the reader, who ends the feed when it is done with it.
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
        try:
            self._header()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def __iter__(self) -> Iterator[Shot]:
        while (shot := self.read()) is not None:
            yield shot

    def read(self, place: Callable[[int, int], NDArray[np.uint8]] | None = None) -> Shot | None:
        """The next shot, or None at the end. `place` gives the array for a picture of a height and width."""
        kind, height, width, cut, episode, step = self._header()
        if kind == END:
            return None
        picture = place(height, width) if place else np.empty((height, width, 3), np.uint8)
        self._fill(picture.data.cast("B"))
        self.received += 1
        return Shot(picture, bool(cut), Position(episode, step))

    def end(self) -> None:
        """End the process at once, so that a thread that waits in `read` gets an error; `close` is still due."""
        self._process.kill()

    def close(self) -> None:
        """End the process. A second call does nothing."""
        if self._pipe < 0:
            return
        os.close(self._pipe)
        self._pipe = -1
        try:
            self._process.wait(1)  # it ends by itself at its next picture
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _header(self) -> tuple[Any, ...]:
        header = bytearray(HEADER.size)
        self._fill(memoryview(header))
        fields = HEADER.unpack(header)
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
                raise ContentError(
                    f"{self.name} died ({self._how_it_ended()}) after {self.received} pictures; "
                    "resume from the last checkpoint, and look at what it said above"
                )
            done += count

    def _how_it_ended(self) -> str:
        status = self._process.wait(10)
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def main(arguments: list[str]) -> None:
    """Send the shots of a feed until they end or nobody listens."""
    descriptor, name, seed, episode, step = arguments
    pipe = int(descriptor)
    try:
        _serve(pipe, name, int(seed), Position(int(episode), int(step)))
    except BrokenPipeError:
        pass
    except ReelError as error:
        _send_text(pipe, WRONG_NAME if isinstance(error, ConfigError) else FAILURE, str(error))
    except Exception as error:  # noqa: BLE001  an environment is foreign code
        traceback.print_exc()
        _send_text(pipe, FAILURE, f"{name} failed with {type(error).__name__}: {error}")


def _serve(pipe: int, name: str, seed: int, start: Position) -> None:
    shots = open_feed(name, seed).shots(start)
    _send(pipe, HEADER.pack(READY, 0, 0, 0, 0, 0))
    for picture, cut, position in shots:
        height, width = picture.shape[:2]
        _send(pipe, HEADER.pack(PICTURE, height, width, cut, *position), np.ascontiguousarray(picture).data)
    _send(pipe, HEADER.pack(END, 0, 0, 0, 0, 0))


def _send(pipe: int, header: bytes, body: memoryview | bytes = b"") -> None:
    for part in (memoryview(header), memoryview(body).cast("B")):
        done = 0
        while done < len(part):
            done += os.write(pipe, part[done:])


def _send_text(pipe: int, kind: bytes, text: str) -> None:
    data = text.encode()
    with suppress(BrokenPipeError):
        _send(pipe, HEADER.pack(kind, len(data), 0, 0, 0, 0), data)


if __name__ == "__main__":
    main(sys.argv[1:])
