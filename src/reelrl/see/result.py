"""What one frame looked like to the model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

Embeddings = tuple[Tensor, Tensor, Tensor]

FIGURES = ("loss", "mse", "l1", "ssim", "gradient_norm", "foreground_mse", "foreground_share")


@dataclass(frozen=True)
class LearnResult:
    """One frame's scores, taken *before* the model learned from it; tensors stay on the device."""

    loss: Tensor
    mse: Tensor
    l1: Tensor
    ssim: Tensor
    gradient_norm: Tensor
    foreground_mse: Tensor
    """Mean squared error over the pixels that differ from the running background; 0 where there are none."""
    foreground_share: Tensor
    reconstruction: Tensor
    embeddings: Embeddings
    change_mask: Tensor
    frame: Tensor
