"""How near pictures come to frames: over the whole frame, over what stands in front, and over what has changed.

Means hide what matters in a game: a ball is one pixel in a thousand. So the errors of pixels in front of the background
are pooled on their own, and those of pixels that changed since the last frame. All sums stay on the device.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from reelrl.see.change import compute_frame_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    Figures = dict[str, float | None]

FAR = 0.1
"""Difference of a colour in [0, 1] from which a pixel is in front of the background, or has changed."""

PSNR_CAP_DB = 100.0
_SUMS = ("frames", "square", "absolute", "ssim", "front_square", "front", "changed_square", "changed")
_WINDOW, _SIGMA = 11, 1.5


class Scores:
    """Sums over frames, for several contestants that saw the same or different frames."""

    def __init__(self, contestants: int, device: str | torch.device = "cpu") -> None:
        self._sums = torch.zeros(contestants, len(_SUMS), dtype=torch.float64, device=device)

    @torch.no_grad()
    def add(self, pictures: Tensor, frames: Tensor, background: Tensor, last: Tensor) -> None:
        """One picture [L, 3, H, W] of each contestant; what it should have been, what lies behind, what was before."""
        error = (pictures - frames).float()
        square = error.square().mean(dim=1, keepdim=True)
        front = (compute_frame_difference(frames, background) > FAR).float()
        changed = (compute_frame_difference(frames, last) > FAR).float()
        parts = [
            torch.ones_like(square[:, 0, 0, 0]),
            _mean(square),
            _mean(error.abs()),
            gaussian_ssim(pictures.float(), frames),
            _mean(square * front),
            _mean(front),
            _mean(square * changed),
            _mean(changed),
        ]
        self._sums += torch.stack([part.expand(len(self._sums)) for part in parts], dim=1)

    def pooled(self) -> Figures:
        """Of all contestants as if they were one."""
        return _figures(dict(zip(_SUMS, self._sums.sum(dim=0).tolist(), strict=True)))

    def figures(self) -> list[Figures]:
        """Of each contestant; None where there was nothing to measure, or it is not a number."""
        return [_figures(dict(zip(_SUMS, row, strict=True))) for row in self._sums.tolist()]


def _mean(values: Tensor) -> Tensor:
    return values.mean(dim=(1, 2, 3))


def _figures(sums: dict[str, float]) -> Figures:
    frames = sums["frames"]
    if not frames:
        return {}
    mse = sums["square"] / frames
    return {
        "mse": _finite(mse),
        "psnr_db": psnr_db(mse),
        "l1": _finite(sums["absolute"] / frames),
        "ssim": _finite(sums["ssim"] / frames),
        "foreground_psnr_db": psnr_db(sums["front_square"] / sums["front"]) if sums["front"] else None,
        "changed_psnr_db": psnr_db(sums["changed_square"] / sums["changed"]) if sums["changed"] else None,
        "foreground_share": sums["front"] / frames,
    }


def psnr_db(mse: float) -> float | None:
    """PSNR of a mean squared error of values in [0, 1], at most 100 dB."""
    if not math.isfinite(mse):
        return None
    return min(PSNR_CAP_DB, -10 * math.log10(mse)) if mse > 0 else PSNR_CAP_DB


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def gaussian_ssim(pictures: Tensor, frames: Tensor) -> Tensor:
    """SSIM of each picture [L, 3, H, W] in [0, 1], mean over colours: Gaussian window of 11, sigma 1.5."""
    frames = frames.expand_as(pictures)
    moments = torch.cat([pictures, frames, pictures**2 + frames**2, pictures * frames])
    mean_a, mean_b, squares, product = _blurred(moments).chunk(4)
    means, both = mean_a.square() + mean_b.square(), mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    similarity = (2 * both + c1) * (2 * (product - both) + c2) / ((means + c1) * (squares - means + c2))
    return _mean(similarity)


def _blurred(planes: Tensor) -> Tensor:
    kernel = torch.tensor(_gaussian(), device=planes.device)
    flat = planes.flatten(0, 1)[:, None]
    wide = functional.conv2d(flat, kernel.view(1, 1, 1, -1))
    high: Tensor = functional.conv2d(wide, kernel.view(1, 1, -1, 1))
    return high.view(*planes.shape[:2], *high.shape[-2:])


@cache
def _gaussian() -> Sequence[float]:
    weights = [math.exp(-((x - _WINDOW // 2) ** 2) / (2 * _SIGMA**2)) for x in range(_WINDOW)]
    return [weight / sum(weights) for weight in weights]
