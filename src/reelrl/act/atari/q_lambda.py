"""Q(lambda): the value of each action, learned with a trace that ends where the player explores.

After Watkins 1989 and, for the step, Elsayed, Vasan and Mahmood 2024. With the chosen action a in s, its reward r and
the next moment s':

    delta = r + gamma * max Q(s', .) - Q(s, a)
    z     <- gamma * lamda * z + grad Q(s, a)       z begins anew with an episode, and at an a that is not the best
    w     <- w + step * delta * z
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.act.atari.net import PlayerNets, chosen
from reelrl.act.atari.traces import TraceOptimiser, limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.act.atari.settings import PlayerSettings


class QLambda(nn.Module):
    """Values of actions, of a player per seed; `learn` from a moment, then `choose` in it."""

    value: Tensor
    action: Tensor
    cut: Tensor

    def __init__(
        self,
        settings: PlayerSettings,
        shapes: Mapping[str, Sequence[int]],
        actions: int,
        seeds: Sequence[int] = (0,),
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self.settings, self.actions = settings, actions
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.net = PlayerNets(shapes, settings.net, actions, generators, device)
        self.optimiser = TraceOptimiser(self.net.weights, settings.value, settings)
        self.register_buffer("value", torch.zeros(len(seeds), device=device))
        self.register_buffer("action", torch.zeros(len(seeds), dtype=torch.int64, device=device))
        self.register_buffer("cut", torch.ones(len(seeds), device=device))

    @torch.no_grad()
    def learn(self, parts: Mapping[str, Tensor], reward: Tensor, goes_on: Tensor, began: Tensor) -> Tensor:
        """Learn what the last actions led to; returns their errors, 0 where an episode begins (`began` is 1)."""
        best = self.net(parts).amax(1)
        error: Tensor = (reward + self.settings.gamma * goes_on * best - self.value) * (1.0 - began)
        self.optimiser.step(limited(error, self.settings.error_limit), self.cut, 1.0 - began)
        return error

    def choose(self, parts: Mapping[str, Tensor], began: Tensor, epsilon: Tensor, chance: Tensor) -> Tensor:
        """Choose actions by two random numbers each, in [0, 1); returns the shares of random ones."""
        values = self.net(parts)
        best = values.detach().argmax(1)
        action = torch.where(chance[:, 0] < epsilon, self._any(chance), best)
        value = chosen(values, action)
        self.net.gradient(value, out=self.optimiser.gradient)
        self.value.copy_(value.detach())
        self.action.copy_(action)
        self.cut.copy_(torch.maximum(began, (action != best).float()) if self.settings.cut_traces else began)
        return epsilon

    @torch.no_grad()
    def play(self, parts: Mapping[str, Tensor], chance: Tensor) -> Tensor:
        """The actions of players that no longer learn: the best ones, but for the last share of random ones."""
        best = self.net(parts).argmax(1)
        return torch.where(chance[:, 0] < self.settings.epsilon[1], self._any(chance), best)

    def preferences(self, parts: Mapping[str, Tensor]) -> Tensor:
        """The value of each action, [players, actions]."""
        values: Tensor = self.net(parts)
        return values

    def _any(self, chance: Tensor) -> Tensor:
        return (chance[:, 1] * self.actions).long().clamp(max=self.actions - 1)
