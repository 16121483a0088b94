"""Single frames and the rows that stacks are made of: what a player sees at once is put together when it is needed.

    frames [rows, agents, C, H, W]      every picture once, as the players wrote it
    rows   [..., stack]                 of each step, oldest first; the first picture of an episode is repeated

A batch has `rows` where an environment of torchrl would have stacked video: a fourth of the memory with a stack of two,
because the picture after a step is the one before the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchrl.envs import Transform

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensordict import TensorDictBase
    from torch import Tensor

ROWS = "frame_rows"
NEXT_ROWS = ("next", ROWS)


def stack_rows(frames: Tensor, rows: Tensor) -> Tensor:
    """Video [..., agents, stack, C, H, W] of rows [..., stack] of single frames [rows, agents, C, H, W]."""
    found = frames.index_select(0, rows.reshape(-1))
    found = found.reshape(*rows.shape, *found.shape[1:])
    return found.transpose(rows.dim() - 1, rows.dim())


class BatchFrames:
    """The frames of the batch that is learned from."""

    def __init__(self, video_key: tuple[str, ...]) -> None:
        self.video_key = video_key
        self.frames = torch.empty(0)

    def stacked(self, rows: Tensor) -> Tensor:
        """Video [..., agents, stack, C, H, W] of rows [..., stack]."""
        return stack_rows(self.frames, rows)

    def with_video(self, process_batch: Callable[..., Any]) -> Callable[..., Any]:
        """BenchMARL's `process_batch`, which asks the critic about all steps, given video for as long as it takes."""

        def process(group: str, batch: TensorDictBase) -> TensorDictBase:
            batch.set(self.video_key, self.stacked(batch.get(ROWS)))
            batch.set(("next", *self.video_key), self.stacked(batch.get(NEXT_ROWS)))
            done: TensorDictBase = process_batch(group, batch)
            return done.exclude(self.video_key, ("next", *self.video_key), NEXT_ROWS)

        return process


class StackFrames(Transform):  # type: ignore[misc]
    """Puts video into each minibatch that is sampled."""

    def __init__(self, frames: BatchFrames) -> None:
        super().__init__()
        self._frames = (frames,)  # not a part of this module

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        frames = self._frames[0]
        return tensordict.set(frames.video_key, frames.stacked(tensordict.get(ROWS)).contiguous())
