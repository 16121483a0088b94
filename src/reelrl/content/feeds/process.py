"""A feed in a process of its own: it works ahead while the reader learns, and may die without taking the reader along.

with FeedProcess("ale:Breakout", seed=0) as feed:
    for shot in feed: ...

parent  ◄── pipe ── python -m reelrl.content.feeds.process FD NAME SEED EPISODE STEP
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.child_process import READY, ChildProcess, answer_errors, message, send
from reelrl.content.feeds.kinds import START, Position, Shot, open_feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

# Kind, then height, width, cut, episode and step of a picture, which follows.
HEADER = struct.Struct("<cIIBQQ")
PICTURE, END = b"p", b"e"


class FeedProcess(ChildProcess):
    """The shots of a feed, from `start`. Iteration ends where the feed does."""

    HEADER = HEADER

    def __init__(self, name: str, seed: int = 0, start: Position = START) -> None:
        super().__init__("reelrl.content.feeds.process", name, [seed, *start])

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


def main(arguments: list[str]) -> None:
    """Send the shots of a feed until they end or nobody listens."""
    descriptor, name, seed, episode, step = arguments
    pipe = int(descriptor)
    answer_errors(pipe, name, HEADER, lambda: _serve(pipe, name, int(seed), Position(int(episode), int(step))))


def _serve(pipe: int, name: str, seed: int, start: Position) -> None:
    shots = open_feed(name, seed).shots(start)
    send(pipe, message(HEADER, READY))
    for picture, cut, position in shots:
        height, width = picture.shape[:2]
        send(pipe, HEADER.pack(PICTURE, height, width, cut, *position), np.ascontiguousarray(picture).data)
    send(pipe, message(HEADER, END))


if __name__ == "__main__":
    main(sys.argv[1:])
