"""Frames in blocks, fetched while those before are learned from: what costs the same for one frame and for thirty.

    with BlockSource("ale:Breakout", seed=0, sizes=[32, 32, 6], device="cuda") as source:
        for block in source:
            for frame, cut in zip(block.frames, block.cuts): ...

The feed runs in its own process; a thread fills the next block from its pipe, for the most part outside of the
interpreter's lock. A block is one copy to the device and one resize.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Self

from reelrl.content.feeds.kinds import START, Position
from reelrl.content.feeds.process import FeedProcess
from reelrl.errors import ContentError
from reelrl.see.frames.source import Upload, to_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor


class Block(NamedTuple):
    """Frames [N, 3, 224, 224] in [0, 1] on the device, which of them are cuts, and where the next one comes from."""

    frames: Tensor
    cuts: list[bool]
    position: Position


class BlockSource:
    """Blocks of the given sizes from a feed that must not end before."""

    def __init__(
        self,
        name: str,
        seed: int,
        sizes: Iterable[int],
        device: str | torch.device = "cpu",
        start: Position = START,
    ) -> None:
        self.name = name
        self._sizes = iter(sizes)
        self._upload = Upload(device)
        self._feed = FeedProcess(name, seed, start)
        self._reader = ThreadPoolExecutor(1, "reel-blocks")
        self._ahead = self._ask()

    @property
    def pid(self) -> int:
        """The process that makes the pictures."""
        return self._feed.pid

    def __iter__(self) -> Iterator[Block]:
        while self._ahead:
            cuts, position = self._ahead.result()
            frames = to_input(self._upload.send().permute(0, 3, 1, 2))
            self._ahead = self._ask()
            yield Block(frames, cuts, position)

    def close(self) -> None:
        self._feed.end()  # so that the thread, if it still waits for a picture, wakes up
        self._reader.shutdown()
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self) -> Future[tuple[list[bool], Position]] | None:
        size = next(self._sizes, None)
        return None if size is None else self._reader.submit(self._fetch, size)

    def _fetch(self, size: int) -> tuple[list[bool], Position]:
        """Fill the next buffer; which of its pictures are cuts, and the place behind the last."""
        cuts: list[bool] = []
        position = START
        buffer: NDArray[np.uint8] | None = None

        def place(height: int, width: int) -> NDArray[np.uint8]:
            nonlocal buffer
            if buffer is None:
                buffer = self._upload.place(size, height, width, 3)
            if buffer.shape[1:3] != (height, width):
                raise ContentError(
                    f"{self.name} changed its size from {buffer.shape[2]}x{buffer.shape[1]} to {width}x{height}; "
                    "give a source whose pictures are all alike"
                )
            picture: NDArray[np.uint8] = buffer[len(cuts)]
            return picture

        while len(cuts) < size:
            shot = self._feed.read(place)
            if shot is None:
                raise ContentError(f"{self.name} ended {size - len(cuts)} or more frames too early; ask for fewer")
            cuts.append(shot.cut)
            position = shot.position.next()
        return cuts, position
