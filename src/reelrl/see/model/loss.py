"""The reconstruction loss: MSE, L1 and structural similarity, weighted per pixel; and which pixels changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from reelrl.see.settings import LossSettings

WINDOW = 8
STRIDE = 4
C1, C2 = 0.01**2, 0.03**2
NOISE_MEMORY = 0.99  # about the last hundred frames
NOISE_LEVELS = 4.0
EACH = (1, 2, 3)
"""All of a picture but which one it is."""


class Losses(NamedTuple):
    """Of each picture [N]: the weighted total that is learned from, and its plain parts as one would report them."""

    total: Tensor
    mse: Tensor
    l1: Tensor
    ssim: Tensor


def reconstruction_loss(picture: Tensor, frame: Tensor, weight: Tensor | None, settings: LossSettings) -> Losses:
    """The losses of pictures against frames; `weight` [N, 1, H, W] says how much each pixel counts."""
    error = picture - frame
    ssim = box_ssim(picture, frame)
    per_pixel = settings.mse * error.square() + settings.l1 * error.abs()
    if weight is not None:
        per_pixel = per_pixel * weight
    total = per_pixel.mean(dim=EACH) + settings.ssim * (1 - ssim)
    with torch.no_grad():
        # Reported is what one sees: a picture has no darker than black.
        seen = picture.clamp(0, 1) - frame
        mse, l1 = seen.square().mean(dim=EACH), seen.abs().mean(dim=EACH)
    return Losses(total, mse, l1, ssim.detach())


def box_ssim(a: Tensor, b: Tensor) -> Tensor:
    """SSIM of each picture, [N]: the mean over 8x8 boxes, four pixels apart.

    Within a few thousandths of the Gaussian window's, and far cheaper.
    """
    moments = torch.cat([a, b, a * a, b * b, a * b], dim=1)
    mean_a, mean_b, square_a, square_b, product = functional.avg_pool2d(moments, WINDOW, STRIDE).chunk(5, dim=1)
    variance = square_a - mean_a * mean_a + square_b - mean_b * mean_b
    covariance = product - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + C1) / (mean_a * mean_a + mean_b * mean_b + C1)
    return (luminance * (2 * covariance + C2) / (variance + C2)).mean(dim=EACH)


class PixelChangeDetector(nn.Module):
    """A mask [N, 1, H, W] of the pixels that changed since the last frame; all zero on the first frame.

    The threshold is four times the running mean of the differences below it (a moving object does not raise it), and
    never under `floor`. Everything stays on the device. N is 1, or that of streams side by side (`stack_buffers`).
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
        difference = compute_frame_difference(frame, self.last) * self.seen.view(-1, 1, 1, 1)
        threshold = self.threshold.view(-1, 1, 1, 1)
        mask = (difference > threshold).to(frame.dtype)
        self.noise.lerp_(difference.minimum(threshold).mean(dim=EACH).view_as(self.noise), 1 - NOISE_MEMORY)
        self.last.copy_(frame)
        self.seen.fill_(1.0)
        return mask


def compute_frame_difference(frame: Tensor, last: Tensor) -> Tensor:
    """The largest absolute difference over the colours: [N, 1, H, W] of two [N, 3, H, W]."""
    return (frame - last).abs().amax(dim=1, keepdim=True)
