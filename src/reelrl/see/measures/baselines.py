"""What a result must be compared with: guesses that need no network, on the same frames.

    mean       the average of all frames before
    previous   the frame before
    27x27      the frame itself through so few pixels

`StreamScores` scores a model beside the first two, each frame before it is taken in. The foreground is where a frame
differs from a background that follows the stream by one grey level a frame: most pixels of a game never change, and a
model that paints only those looks good on all the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Mapping

FOREGROUND = 0.1  # how far a pixel must be from the background, of 1
GREY_LEVEL = 1 / 255
GUESSES = ("model", "mean", "previous")
FIGURES = (
    *(f"{guess}_mse" for guess in GUESSES),
    *(f"{guess}_foreground" for guess in GUESSES),  # squared error in the foreground, averaged over the whole frame
    "foreground_share",
)


class StreamBaselines(nn.Module):
    """What the frames so far say about the next; everything stays on the device."""

    mean: Tensor
    previous: Tensor
    seen: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        for name in ("mean", "previous"):
            self.register_buffer(name, torch.zeros(1, 3, size, size))
        self.register_buffer("seen", torch.zeros(()))

    @torch.no_grad()
    def observe(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """The mean before each of the frames [N, 3, H, W] and the frame before it; then they are taken in."""
        counts = self.seen + torch.arange(1, len(frames) + 1, device=frames.device, dtype=frames.dtype)
        means = self.mean + (frames - self.mean).cumsum(dim=0) / counts.view(-1, 1, 1, 1)
        before = torch.cat([self.mean, means[:-1]]), torch.cat([self.previous, frames[:-1]])
        self.mean.copy_(means[-1:])
        self.previous.copy_(frames[-1:])
        self.seen.add_(float(len(frames)))
        return before


class StreamScores(StreamBaselines):
    """Scores a reconstruction, the mean and the previous frame."""

    background: Tensor

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("background", torch.zeros(1, 3, size, size))

    @torch.no_grad()
    def forward(self, frame: Tensor, reconstruction: Tensor) -> Tensor:
        """FIGURES of one frame [1, 3, H, W], as one vector; then the frame is taken in."""
        background = torch.where(self.seen > 0, self.background, frame)
        guesses = torch.cat([reconstruction.to(frame.dtype), *self.observe(frame)])
        errors = (guesses - frame).square_().mean(dim=1)
        away = frame - background
        foreground = (away.abs().amax(dim=1) > FOREGROUND).to(frame.dtype)
        row = torch.cat([errors.mean(dim=(1, 2)), (errors * foreground).mean(dim=(1, 2)), foreground.mean(dim=(1, 2))])
        self.background.copy_(background.add_(away.sign_(), alpha=GREY_LEVEL).clamp_(0, 1))
        return row


def through_small(frames: Tensor, size: int = 27) -> Tensor:
    """Frames shrunk and back, bilinearly."""
    return functional.interpolate(shrunk(frames, size), frames.shape[-2:], mode="bilinear", align_corners=False)


def shrunk(frames: Tensor, size: int) -> Tensor:
    """Frames as size x size pixels, each the average over what it covers."""
    return functional.interpolate(frames, (size, size), mode="bilinear", align_corners=False, antialias=True)


def psnr(mse: float) -> float:
    """Decibels for pixels in [0, 1]; a perfect picture counts as 100."""
    return -10 * math.log10(max(mse, 1e-10))


def summary(means: Mapping[str, float]) -> dict[str, float]:
    """PSNR of the mean errors, over all pixels and over the foreground where there was any."""
    share = means["foreground_share"]
    figures = {"mse": means["model_mse"]}
    for guess in GUESSES:
        prefix = "" if guess == "model" else f"{guess}_frame_"
        figures[f"{prefix}psnr"] = psnr(means[f"{guess}_mse"])
        if share > 0:
            figures[f"{prefix}foreground_psnr"] = psnr(means[f"{guess}_foreground"] / share)
    return figures | {"foreground_share": share}
