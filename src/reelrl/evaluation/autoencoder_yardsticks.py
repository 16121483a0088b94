"""What a learner has to beat: pictures that cost no learning at all.

yardsticks = Yardsticks("cpu")
guesses = yardsticks.look(frame)       # [3, 3, 224, 224]: what each says about a frame, before it is learned from
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from reelrl.content.feeds import open_feed
from reelrl.see.frames import to_input
from reelrl.see.settings import FRAME_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("mean frame", "previous frame", "27x27 resize")
HELD_OUT_SEED = 20_261
"""Of the episodes that no learner has seen; training seeds must be others."""

_SMALL = 27


class Yardsticks:
    """The mean of all frames so far, the frame before, and the frame itself through 27x27 pixels."""

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self._mean = torch.zeros(1, 3, FRAME_SIZE, FRAME_SIZE, device=device)
        self._last = torch.zeros_like(self._mean)
        self._seen = 0

    @property
    def last(self) -> Tensor:
        """The frame before, [1, 3, 224, 224]."""
        return self._last

    def guess(self, frame: Tensor) -> Tensor:
        """[3, 3, 224, 224], in the order of NAMES. Only the resize has seen `frame` [1, 3, 224, 224]."""
        return torch.cat([self._mean, self._last, through_27x27(frame)])

    def update(self, frame: Tensor) -> None:
        self._seen += 1
        self._mean += (frame - self._mean) / self._seen
        self._last = frame


def through_27x27(frames: Tensor) -> Tensor:
    """Frames shrunk to 27x27 and back, bilinearly; shrinking averages over what a pixel covers."""
    return functional.interpolate(small(frames), (FRAME_SIZE, FRAME_SIZE), mode="bilinear", align_corners=False)


def small(frames: Tensor) -> Tensor:
    """Frames as 27x27 pixels."""
    size = (_SMALL, _SMALL)
    return functional.interpolate(frames, size, mode="bilinear", align_corners=False, antialias=True)


@cache
def background_of(source: str, *, frames: int = 1000, every: int = 10) -> Tensor:
    """The median picture [1, 3, 224, 224] of a held-out stretch of a source: what is there when nothing happens."""
    pictures: list[NDArray[np.uint8]] = []
    for number, shot in enumerate(open_feed(source, HELD_OUT_SEED).shots()):
        if number >= frames:
            break
        if not number % every:
            pictures.append(shot.picture)
    median = np.median(np.stack(pictures), axis=0).astype(np.uint8)
    return to_input(torch.from_numpy(median).permute(2, 0, 1))
