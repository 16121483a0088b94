"""Means and variances of streams, and what is scaled by them: observations, and rewards, of players side by side.

All state lies in fixed tensors whose first dimension is the players', and nothing asks the device for a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALLEST = 1e-8  # what is added to a variance before its root divides


class RunningMoments(nn.Module):
    """Mean and variance of each element over all that its player added, by Welford's rule."""

    mean: Tensor
    squares: Tensor
    count: Tensor

    def __init__(self, players: int, shape: Sequence[int] = ()) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(players, *shape))
        self.register_buffer("squares", torch.zeros(players, *shape))
        self.register_buffer("count", torch.zeros(players, *[1] * len(shape)))

    @torch.no_grad()
    def add(self, value: Tensor, counts: Tensor | None = None) -> None:
        """Take in a value of each player; where `counts` [players] is 0 nothing changes."""
        if counts is None:
            self.count.add_(1.0)
            before = value - self.mean
            self.mean.add_(before / self.count)
            self.squares.addcmul_(before, value - self.mean)
            return
        counted = counts.view_as(self.count)
        self.count.add_(counted)
        before = value - self.mean
        self.mean.add_(before * (counted / self.count.clamp(min=1.0)))
        self.squares.add_(before * (value - self.mean) * counted)

    @property
    def deviation(self) -> Tensor:
        """The standard deviation; 1 before two values are known."""
        # Before two values are known all squares are 0.
        variance = self.squares / (self.count - 1).clamp(min=1.0)
        return variance.add_((self.count < 2) + SMALLEST).sqrt_()

    def normalise(self, value: Tensor) -> Tensor:
        return (value - self.mean).div_(self.deviation)


class RewardScale(nn.Module):
    """Rewards in units of the standard deviation of their discounted sum, which begins anew with each episode."""

    total: Tensor

    def __init__(self, players: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.moments = RunningMoments(players)
        self.register_buffer("total", torch.zeros(players))

    @torch.no_grad()
    def forward(self, reward: Tensor, began: Tensor) -> Tensor:
        """The scaled rewards; the first moment of an episode (`began` is 1) has none, and is not counted."""
        self.total.copy_((self.gamma * self.total + reward) * (1.0 - began))
        self.moments.add(self.total, 1.0 - began)
        return reward / self.moments.deviation
