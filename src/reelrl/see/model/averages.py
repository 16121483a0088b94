"""Local averages of a frame, on the same grid as a branch of the encoder.

A branch of kernel K and stride 2, three times over, becomes binomial weights there: smooth hats 8 pixels apart that
overlap and add up to one everywhere. So wherever a small thing stands, the averages' sum is its brightness and their
centre of mass is its place: both linear, which is what a linear reader needs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reelrl.see.settings import FRAME_SIZE

STAGES, STRIDE = 3, 2
GAIN = 0.125
"""Of the averages in an embedding at first: a bright sprite, some ten units of the frame's scale, stays about one."""
# Brightness, red against blue, green against both.
_COLOURS = ((1 / 3, 1 / 3, 1 / 3), (1 / 2, 0.0, -1 / 2), (-1 / 4, 1 / 2, -1 / 4))


class Shrink(nn.Module):
    """[N, C, 224, 224] to averages [N, C, size, size] on the grid of kernel 3 (27), 5 (25) or 7 (23)."""

    rows: Tensor

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.register_buffer("rows", averaging_rows(kernel), persistent=False)

    def forward(self, frames: Tensor) -> Tensor:
        return self.rows @ frames @ self.rows.T


class Averages(nn.Module):
    """Averages of the colours, mixed into an embedding's channels."""

    def __init__(self, kernel: int, channels: int, colours: int = 3) -> None:
        super().__init__()
        self.shrink = Shrink(kernel)
        self.mix = nn.Conv2d(colours, channels, 1, bias=False)

    @torch.no_grad()
    def start_(self) -> None:
        """Brightness in the first channel, colours in the next."""
        self.mix.weight.zero_()
        some = torch.tensor(_COLOURS)[: len(self.mix.weight)]
        self.mix.weight[: len(some), :, 0, 0] = GAIN * some

    def forward(self, frames: Tensor) -> Tensor:
        mixed: Tensor = self.mix(self.shrink(frames))
        return mixed


def averaging_rows(kernel: int, size: int = FRAME_SIZE) -> Tensor:
    """The weights of each average [averages, size] along one side."""
    taps = torch.tensor([math.comb(kernel - 1, i) for i in range(kernel)]) / 2 ** (kernel - 1)
    rows = torch.eye(size)
    for _ in range(STAGES):
        rows = rows.unfold(0, kernel, STRIDE) @ taps
    return rows
