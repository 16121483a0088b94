"""Layers of small convolutional nets: each halves a picture, and looks at it once more beside what came in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence


def residual_trunk(channels: Sequence[int], blocks: Sequence[int]) -> nn.Sequential:
    """Pictures [N, 3, H, W] to [N, channels[-1], H / 2^n, W / 2^n], with so many residual blocks after each halving."""
    layers, before = nn.Sequential(), 3
    for wide, count in zip(channels, blocks, strict=True):
        layers.append(halving(before, wide))
        layers.extend(Residual(wide) for _ in range(count))
        before = wide
    return layers


def halving(before: int, channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, channels, 3, 2, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
    )


class Residual(nn.Module):
    """Two convolutions beside what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, seen: Tensor) -> Tensor:
        return torch.relu(seen + self.layers(seen))
