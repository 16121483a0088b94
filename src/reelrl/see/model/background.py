"""Streaming normalisation: what a stream shows when nothing happens, and how far it strays from that."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Background(nn.Module):
    """The running mean of each pixel and one running scale of the differences from it.

    The mean of the first `memory` frames is exact; after that old frames fade. The encoder sees frames as differences
    in units of the scale, and the decoder paints over the mean.
    """

    mean: Tensor
    square: Tensor
    seen: Tensor

    def __init__(self, size: int, channels: int = 3, memory: int = 2000) -> None:
        super().__init__()
        self.memory = memory
        self.register_buffer("mean", torch.zeros(1, channels, size, size))
        self.register_buffer("square", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def normalise(self, frames: Tensor) -> Tensor:
        # The floor keeps a still picture still: a scale of zero would blow up the first speck of dust.
        return (frames - self.mean) * self.square.clamp(min=1e-4).rsqrt()

    @torch.no_grad()
    def update(self, frame: Tensor) -> None:
        """Take one frame into the mean and the scale."""
        self.seen.add_(1.0).clamp_(max=self.memory)
        rate = 1.0 / self.seen
        difference = frame - self.mean
        self.mean.add_(difference * rate)
        self.square.lerp_(difference.square().mean(), rate)
