"""Frames on the learner's device, fetched while it still learns from the one before.

    with FrameSource("ale:Breakout", seed=0, device="cuda") as source:
        for frame in source:                    # uint8 [3, height, width] at the source's own size
            model.learn(frame.pixels, reset=frame.cut)
    source.position                             # where to go on

On CUDA a picture goes from the pipe straight into pinned memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from reelrl import seeding
from reelrl.content.feeds.kinds import START, Position
from reelrl.content.feeds.process import FeedProcess
from reelrl.see.frames.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor

GAMES = ("Breakout", "Assault", "SpaceInvaders", "Pacman", "Asteroids")


class SourceFrame(NamedTuple):
    """A picture on the device; `cut` where it does not continue the one before."""

    pixels: Tensor
    cut: bool


def random_game(seed: int) -> str:
    """One of the five games, by the seed."""
    return f"ale:{GAMES[int(seeding.stream(seed, 'game').integers(len(GAMES)))]}"


class FrameSource:
    """The frames of a feed from `start` on; iteration ends where the feed does."""

    def __init__(self, name: str, seed: int, device: str | torch.device = "cpu", start: Position = START) -> None:
        self.name = name
        self.position = start
        """Where the next frame comes from."""
        self._feed = FeedProcess(name, seed, start)
        self._upload = Upload(device)

    @property
    def pid(self) -> int:
        """The process that makes the pictures."""
        return self._feed.pid

    def __iter__(self) -> Iterator[SourceFrame]:
        while (frame := self.read()) is not None:
            yield frame

    def read(self) -> SourceFrame | None:
        """The next frame, or None at the end."""
        shot = self._feed.read(lambda height, width: self._upload.place(height, width, 3))
        if shot is None:
            return None
        self.position = shot.position.next()
        return SourceFrame(self._upload.send().permute(2, 0, 1), shot.cut)

    def close(self) -> None:
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
