"""Actor-critic(lambda): a value, and how likely each action is, both learned from one error with a trace each.

After Elsayed, Vasan and Mahmood 2024. With the chosen action a in s, its reward r and the next moment s':

    delta = r + gamma * V(s') - V(s)
    z_V   <- gamma * lamda * z_V + grad V(s)
    z_pi  <- gamma * lamda * z_pi + grad (log pi(a | s) + entropy * sign(delta) * H(pi(. | s)))
    w     <- w + step * delta * z                   for both; traces begin anew with an episode

The sign makes the entropy rise whatever the error is.
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


class ActorCriticLambda(nn.Module):
    """A critic and an actor with a network each, of a player per seed; `learn` from a moment, then `choose` in it."""

    value: Tensor
    action: Tensor
    cut: Tensor
    entropy_gradient: Tensor

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
        self.critic = PlayerNets(shapes, settings.net, 1, generators, device)
        self.actor = PlayerNets(shapes, settings.net, actions, generators, device)
        self.value_optimiser = TraceOptimiser(self.critic.weights, settings.value, settings)
        self.policy_optimiser = TraceOptimiser(self.actor.weights, settings.policy, settings, policy=True)
        self.register_buffer("value", torch.zeros(len(seeds), device=device))
        self.register_buffer("action", torch.zeros(len(seeds), dtype=torch.int64, device=device))
        self.register_buffer("cut", torch.ones(len(seeds), device=device))
        if settings.entropy > 0:
            self.register_buffer("entropy_gradient", torch.zeros_like(self.actor.weights))

    @torch.no_grad()
    def learn(self, parts: Mapping[str, Tensor], reward: Tensor, goes_on: Tensor, began: Tensor) -> Tensor:
        """Learn what the last actions led to; returns their errors, 0 where an episode begins (`began` is 1)."""
        after = self.critic(parts).squeeze(1)
        error: Tensor = (reward + self.settings.gamma * goes_on * after - self.value) * (1.0 - began)
        step = limited(error, self.settings.error_limit)
        self.value_optimiser.step(step, self.cut, 1.0 - began)
        if self.settings.entropy > 0:
            weight = self.settings.entropy * step.sign().unsqueeze(1)
            self.policy_optimiser.gradient.add_(self.entropy_gradient * weight)
        self.policy_optimiser.step(step, self.cut, 1.0 - began)
        return error

    def choose(self, parts: Mapping[str, Tensor], began: Tensor, epsilon: Tensor, chance: Tensor) -> Tensor:  # noqa: ARG002
        """Draw actions by a random number each, in [0, 1); returns the entropies that they were drawn with."""
        value = self.critic(parts).squeeze(1)
        self.critic.gradient(value, out=self.value_optimiser.gradient)
        logs = self.actor(parts).log_softmax(1)
        action = drawn(logs.detach(), chance[:, 0])
        entropy: Tensor = -(logs.exp() * logs).sum(1)
        self.actor.gradient(chosen(logs, action), out=self.policy_optimiser.gradient, retain=self.settings.entropy > 0)
        if self.settings.entropy > 0:
            self.actor.gradient(entropy, out=self.entropy_gradient)
        self.value.copy_(value.detach())
        self.action.copy_(action)
        self.cut.copy_(began)
        return entropy.detach()

    @torch.no_grad()
    def play(self, parts: Mapping[str, Tensor], chance: Tensor) -> Tensor:
        """The actions of players that no longer learn: drawn as they were learned."""
        return drawn(self.actor(parts).log_softmax(1), chance[:, 0])

    def preferences(self, parts: Mapping[str, Tensor]) -> Tensor:
        """How likely each action is, [players, actions]."""
        shares: Tensor = self.actor(parts).softmax(1)
        return shares


def drawn(logs: Tensor, chance: Tensor) -> Tensor:
    """The actions whose share of all probability holds `chance` [players]; `logs` are [players, actions]."""
    edges = logs.exp().cumsum(1)
    return (edges <= chance.unsqueeze(1) * edges[:, -1:]).sum(1).clamp(max=logs.shape[1] - 1)
