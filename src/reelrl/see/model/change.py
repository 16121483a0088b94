"""What changed since the last frame, with a threshold that follows the stream's own noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

NOISE_MEMORY = 0.99
NOISE_LEVELS = 4.0


def compute_frame_difference(frame: Tensor, last: Tensor) -> Tensor:
    """The largest absolute difference over the colours: [N, 1, H, W] of two [N, 3, H, W]."""
    return (frame - last).abs().amax(dim=1, keepdim=True)


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
