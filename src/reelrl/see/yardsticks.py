"""What a result must be compared with: two guesses that need no network, scored on the same frames.

    mean       the average of all frames so far
    previous   the frame before

Each frame is scored before it is taken in, as the model is. The foreground is where a frame differs from a background
that follows the stream by one grey level a frame: most pixels of a game never change, and a model that paints only
those looks good on all the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

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


class Yardsticks(nn.Module):
    """Scores a reconstruction and the two guesses; everything stays on the device."""

    mean: Tensor
    previous: Tensor
    background: Tensor
    seen: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        for name in ("mean", "previous", "background"):
            self.register_buffer(name, torch.zeros(1, 3, size, size))
        self.register_buffer("seen", torch.zeros(()))

    @torch.no_grad()
    def forward(self, frame: Tensor, reconstruction: Tensor) -> Tensor:
        """FIGURES of one frame [1, 3, H, W], as one vector; then the frame is taken in."""
        guesses = torch.cat([reconstruction.to(frame.dtype), self.mean, self.previous])
        errors = (guesses - frame).square_().mean(dim=1)
        background = torch.where(self.seen > 0, self.background, frame)
        away = frame - background
        foreground = (away.abs().amax(dim=1) > FOREGROUND).to(frame.dtype)
        row = torch.cat([errors.mean(dim=(1, 2)), (errors * foreground).mean(dim=(1, 2)), foreground.mean(dim=(1, 2))])
        self.seen.add_(1.0)
        self.mean.lerp_(frame, 1 / self.seen)
        self.previous.copy_(frame)
        self.background.copy_(background.add_(away.sign_(), alpha=GREY_LEVEL).clamp_(0, 1))
        return row


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
