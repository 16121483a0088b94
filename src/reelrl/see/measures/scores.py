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

from reelrl.see.measures.baselines import psnr
from reelrl.see.model.loss import compute_frame_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    Figures = dict[str, float | None]

FAR = 0.1
"""Difference of a colour in [0, 1] from which a pixel is in front of the background, or has changed."""

_SUMS = ("frames", "square", "absolute", "ssim", "front_square", "front", "changed_square", "changed")
_WINDOW, _SIGMA = 11, 1.5


class Scores:
    """Sums over frames, for several contestants that saw the same frames."""

    def __init__(self, contestants: int, device: str | torch.device = "cpu") -> None:
        self.sums = torch.zeros(contestants, len(_SUMS), dtype=torch.float64, device=device)

    @torch.no_grad()
    def add(self, pictures: Sequence[Tensor], frames: Tensor, background: Tensor, last: Tensor) -> None:
        """Each contestant's pictures [N, 3, H, W]; what they should have been, what lies behind, what was before."""
        front = (compute_frame_difference(frames, background) > FAR).float()
        changed = (compute_frame_difference(frames, last) > FAR).float()
        ssim = Ssim(frames)
        for sums, each in zip(self.sums, pictures, strict=True):
            error = each.float() - frames
            square = error.square().mean(dim=1, keepdim=True)
            parts = [
                torch.ones_like(square),
                square,
                error.abs(),
                ssim(each.float()),
                square * front,
                front,
                square * changed,
                changed,
            ]
            sums += torch.stack([part.mean(dim=(1, 2, 3)).sum() for part in parts])

    def figures(self) -> list[Figures]:
        """Of each contestant; None where there was nothing to measure, or it is not a number."""
        return [_figures(dict(zip(_SUMS, row, strict=True))) for row in self.sums.tolist()]


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
    """PSNR of a mean squared error of values in [0, 1], at most 100 dB; None of what is not a number."""
    return psnr(mse) if math.isfinite(mse) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Ssim:
    """SSIM of pictures and frames [N, 3, H, W] in [0, 1]: Gaussian window of 11, sigma 1.5."""

    def __init__(self, frames: Tensor) -> None:
        self._kernel = torch.tensor(_gaussian(), dtype=frames.dtype).to(frames.device, non_blocking=True)
        self._frames = frames
        self._mean, self._squares = self._blurred(frames), self._blurred(frames.square())

    def __call__(self, pictures: Tensor) -> Tensor:
        """For every place of the window, [N, 3, H - 10, W - 10]."""
        mean = self._blurred(pictures)
        squares = self._blurred(pictures.square()) + self._squares
        product = self._blurred(pictures * self._frames)
        means, both = mean.square() + self._mean.square(), mean * self._mean
        c1, c2 = 0.01**2, 0.03**2
        return (2 * both + c1) * (2 * (product - both) + c2) / ((means + c1) * (squares - means + c2))

    def _blurred(self, planes: Tensor) -> Tensor:
        flat = planes.flatten(0, 1)[:, None]
        wide = functional.conv2d(flat, self._kernel.view(1, 1, 1, -1))
        high: Tensor = functional.conv2d(wide, self._kernel.view(1, 1, -1, 1))
        return high.view(*planes.shape[:2], *high.shape[-2:])


@cache
def _gaussian() -> tuple[float, ...]:
    weights = [math.exp(-((x - _WINDOW // 2) ** 2) / (2 * _SIGMA**2)) for x in range(_WINDOW)]
    return tuple(weight / sum(weights) for weight in weights)
