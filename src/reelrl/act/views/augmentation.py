"""Views seen a little differently each time, so that an encoder cannot go by what does not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import affine_grid, grid_sample

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AugmentationSettings:
    """How much pictures are changed; 0 is not at all."""

    crop: float = 0.2
    """Up to this share of height and width is cut away."""
    shift: float = 0.1
    """Up to this share of height and width is moved out of the picture; the edge is repeated."""
    brightness: float = 0.3
    tint: float = 0.1
    """Of each colour by itself."""

    def __post_init__(self) -> None:
        for name in ("crop", "shift", "brightness", "tint"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it is a share from 0 to below 1")


def augmented(pictures: Tensor, rng: np.random.Generator, settings: AugmentationSettings) -> Tensor:
    """Pictures [N, 3, H, W] from 0 to 255 as floats, each changed in its own way."""
    count, device = len(pictures), pictures.device

    def drawn(low: float, high: float, *shape: int) -> Tensor:
        return torch.from_numpy(rng.uniform(low, high, (count, *shape)).astype(np.float32)).to(device)

    changed = pictures.float()
    if settings.crop or settings.shift:
        zoom = 1 - drawn(0, settings.crop)
        # A cut of the picture stays within it; a shift may leave it.
        moved = drawn(-1, 1, 2) * (1 - zoom[:, None]) + drawn(-2 * settings.shift, 2 * settings.shift, 2)
        theta = torch.zeros(count, 2, 3, device=device)
        theta[:, 0, 0] = theta[:, 1, 1] = zoom
        theta[:, :, 2] = moved
        grid = affine_grid(theta, list(pictures.shape), align_corners=False)
        changed = grid_sample(changed, grid, padding_mode="border", align_corners=False)
    gain = drawn(1 - settings.brightness, 1 + settings.brightness, 1, 1, 1)
    gain = gain * drawn(1 - settings.tint, 1 + settings.tint, 3, 1, 1)
    return (changed * gain).clamp(0, 255)
