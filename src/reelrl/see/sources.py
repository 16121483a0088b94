"""Frames on the learner's device, fetched while it still learns from the one before.

    with FrameSource("ale:Breakout", seed=0, device="cuda") as source:
        for frame in source:                    # uint8 [3, height, width] at the source's own size
            model.learn(frame.pixels, reset=frame.cut)
    source.position                             # where to go on

On CUDA a picture goes from the pipe into pinned memory and from there to the device on a stream of its own, so the copy
runs beside the update before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch import Tensor

from reelrl import seeding
from reelrl.content.feed_process import FeedProcess
from reelrl.content.feeds import START, Position, Shot

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

GAMES = ("Breakout", "Assault", "SpaceInvaders", "Pacman", "Asteroids")
SLOTS = 4  # pinned buffers: how far the host may run ahead of the device


class Frame(NamedTuple):
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
        on_cuda = torch.device(device).type == "cuda"
        self._upload = _Upload(torch.device(device)) if on_cuda else None

    @property
    def pid(self) -> int:
        """The process that makes the pictures."""
        return self._feed.pid

    def __iter__(self) -> Iterator[Frame]:
        while (frame := self.read()) is not None:
            yield frame

    def read(self) -> Frame | None:
        """The next frame, or None at the end."""
        shot = self._upload.read(self._feed) if self._upload else self._feed.read()
        if shot is None:
            return None
        self.position = shot.position.next()
        pixels = self._upload.pixels() if self._upload else torch.from_numpy(shot.picture)
        return Frame(pixels.permute(2, 0, 1), shot.cut)

    def close(self) -> None:
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Upload:
    """Pinned buffers in turn, and the stream that copies them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._slots: list[Tensor | None] = [None] * SLOTS
        self._copied = [torch.cuda.Event() for _ in range(SLOTS)]  # type: ignore[no-untyped-call]
        self._turn = 0

    def read(self, feed: FeedProcess) -> Shot | None:
        self._turn = (self._turn + 1) % SLOTS
        return feed.read(self._slot)

    def _slot(self, height: int, width: int) -> NDArray[np.uint8]:
        self._copied[self._turn].synchronize()  # long done, unless the device is SLOTS frames behind
        held = self._slots[self._turn]
        if held is None or held.shape[:2] != (height, width):
            held = self._slots[self._turn] = torch.empty((height, width, 3), dtype=torch.uint8, pin_memory=True)
        array: NDArray[np.uint8] = held.numpy()
        return array

    def pixels(self) -> Tensor:
        """The picture just read, on its way to the device; work queued after this call finds it there."""
        held = self._slots[self._turn]
        if held is None:
            raise RuntimeError("no picture was read")
        with torch.cuda.stream(self._stream):
            pixels = held.to(self._device, non_blocking=True)
        self._copied[self._turn].record(self._stream)
        learner = torch.cuda.current_stream(self._device)
        learner.wait_stream(self._stream)
        # The allocator must not hand this memory out again before the learner has read it.
        pixels.record_stream(learner)
        return pixels
