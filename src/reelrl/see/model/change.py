"""What a stream shows when nothing happens, and what changed since the last frame."""

from __future__ import annotations

import torch
from torch import Tensor, nn

NOISE_MEMORY = 0.99  # about the last hundred frames
NOISE_LEVELS = 4.0


def compute_frame_difference(frame: Tensor, last: Tensor) -> Tensor:
    """The largest absolute difference over the colours: [N, 1, H, W] of two [N, 3, H, W]."""
    return (frame - last).abs().amax(dim=1, keepdim=True)


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


class PixelChangeDetector(nn.Module):
    """A mask [1, 1, H, W] of the pixels that changed since the last frame; all zero on the first frame.

    The threshold is four times the running mean of the differences below it (a moving object does not raise it), and
    never under `floor`. Everything stays on the device.
    """

    last: Tensor
    noise: Tensor
    seen: Tensor

    def __init__(self, size: int, channels: int = 3, floor: float = 0.02) -> None:
        super().__init__()
        self.floor = floor
        self.register_buffer("last", torch.zeros(1, channels, size, size))
        self.register_buffer("noise", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    @property
    def threshold(self) -> Tensor:
        return (self.noise * NOISE_LEVELS).clamp(min=self.floor)

    @torch.no_grad()
    def forward(self, frame: Tensor) -> Tensor:
        difference = compute_frame_difference(frame, self.last) * self.seen
        threshold = self.threshold
        mask = (difference > threshold).to(frame.dtype)
        self.noise.lerp_(difference.minimum(threshold).mean(), 1 - NOISE_MEMORY)
        self.last.copy_(frame)
        self.seen.fill_(1.0)
        return mask
