"""Proximal policy optimisation for discrete actions, on one page.

What differs from the textbook:
- the critic may see more than the actor (`hints`): whatever the simulator knows about the future. It takes the luck of
  the draw out of the advantages and is thrown away after training;
- values are learned in units of the returns' own spread, with a Huber loss: rare disasters move them, but do not
  blind them;
- whole batches stay on the device of the tensors given; nothing here asks which one that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from reelrl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """The learner's constants. Rates and entropy fall linearly from start to end over the run."""

    learning_rate: float = 1e-3
    learning_rate_end: float = 5e-5
    entropy: float = 0.03
    entropy_end: float = 0.001
    discount: float = 0.99
    trace_decay: float = 0.95  # GAE's lambda
    clip: float = 0.2
    epochs: int = 3
    minibatches: int = 8
    gradient_norm: float = 0.5

    def __post_init__(self) -> None:
        for name in ("discount", "trace_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is a share, 0 to 1")
        if self.epochs < 1 or self.minibatches < 1:
            raise ConfigError(f"epochs = {self.epochs}, minibatches = {self.minibatches}; both are 1 or more")


class ActorCritic(Protocol):
    """What PPO needs of a network."""

    def logits(self, observations: Tensor) -> Tensor: ...
    def value(self, observations: Tensor, hints: Tensor) -> Tensor: ...


class Players(Protocol):
    """A batch of episodes that restart by themselves. `step` returns observations, hints, rewards and who ended."""

    def reset(self) -> tuple[Tensor, Tensor]: ...
    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...


class Rollout(NamedTuple):
    """Steps x players of experience; `last_value` is what the critic expects after the last step."""

    observations: Tensor
    hints: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    ended: Tensor
    last_value: Tensor


def sample(logits: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Actions drawn by the Gumbel trick, and the logarithm of their probability."""
    log_probs = torch.log_softmax(logits, dim=-1)
    uniform = torch.rand(logits.shape, generator=generator, device=logits.device).clamp_min(1e-20)
    actions = (log_probs - (-uniform.log()).log()).argmax(dim=-1)
    return actions, log_probs.gather(-1, actions[..., None])[..., 0]


def advantages(rollout: Rollout, values: Tensor, last_value: Tensor, settings: PpoSettings) -> Tensor:
    """Generalised advantage estimates, (steps, players), in the units of the rewards."""
    result = torch.empty_like(rollout.rewards)
    following, carried = last_value, torch.zeros_like(last_value)
    for t in range(len(rollout.rewards) - 1, -1, -1):
        alive = 1.0 - rollout.ended[t].to(values.dtype)
        error = rollout.rewards[t] + settings.discount * following * alive - values[t]
        carried = error + settings.discount * settings.trace_decay * alive * carried
        result[t] = carried
        following = values[t]
    return result


class Ppo:
    """The learner: collects with `collect`, improves with `update`."""

    def __init__(self, network: nn.Module, settings: PpoSettings, generator: torch.Generator) -> None:
        self.network = network
        self.settings = settings
        self.generator = generator
        self.optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, eps=1e-5)
        device = next(network.parameters()).device
        self.return_spread = torch.ones((), device=device)
        self._policy: ActorCritic = network  # type: ignore[assignment]

    @torch.no_grad()
    def collect(
        self, players: Players, observations: Tensor, hints: Tensor, steps: int
    ) -> tuple[Rollout, Tensor, Tensor]:
        """Play `steps` with everyone; returns the experience and where the players stand."""
        kept: list[tuple[Tensor, ...]] = []
        for _ in range(steps):
            actions, log_probs = sample(self._policy.logits(observations), self.generator)
            values = self._policy.value(observations, hints)
            next_observations, next_hints, rewards, ended = players.step(actions)
            kept.append((observations, hints, actions, log_probs, values, rewards, ended))
            observations, hints = next_observations, next_hints
        columns = [torch.stack(column) for column in zip(*kept, strict=True)]
        rollout = Rollout._make([*columns, self._policy.value(observations, hints)])
        return rollout, observations, hints

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Improve on one batch of experience. `progress` runs from 0 to 1 over the training."""
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = _fall(settings.learning_rate, settings.learning_rate_end, progress)
        spread = self.return_spread
        gains = advantages(rollout, rollout.values * spread, rollout.last_value * spread, settings)
        returns = gains + rollout.values * spread
        self.return_spread = 0.95 * spread + 0.05 * returns.std().clamp_min(1e-3)
        targets = returns / self.return_spread
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        flat = [x.flatten(0, 1) for x in (rollout.observations, rollout.hints, rollout.actions, rollout.log_probs)]
        batch = (*flat, gains.flatten(), targets.flatten())
        entropy_weight = _fall(settings.entropy, settings.entropy_end, progress)
        losses = torch.zeros(3, device=spread.device)
        for _ in range(settings.epochs):
            order = torch.randperm(len(batch[0]), generator=self.generator, device=spread.device)
            for chosen in order.chunk(settings.minibatches):
                losses += self._improve(*(column[chosen] for column in batch), entropy_weight=entropy_weight)
        policy, value, entropy = (losses / (settings.epochs * settings.minibatches)).tolist()
        return {"policy_loss": policy, "value_loss": value, "entropy": entropy, "return_spread": float(spread)}

    def _improve(
        self,
        observations: Tensor,
        hints: Tensor,
        actions: Tensor,
        old_log_probs: Tensor,
        gains: Tensor,
        targets: Tensor,
        *,
        entropy_weight: float,
    ) -> Tensor:
        log_probs = torch.log_softmax(self._policy.logits(observations), dim=-1)
        ratio = (log_probs.gather(-1, actions[:, None])[:, 0] - old_log_probs).exp()
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        policy_loss = -torch.minimum(ratio * gains, clipped * gains).mean()
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        value_loss = nn.functional.smooth_l1_loss(self._policy.value(observations, hints), targets)
        self.optimizer.zero_grad(set_to_none=True)
        (policy_loss + value_loss - entropy_weight * entropy).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_norm)
        self.optimizer.step()
        return torch.stack([policy_loss.detach(), value_loss.detach(), entropy.detach()])


def _fall(start: float, end: float, progress: float) -> float:
    return start + (end - start) * min(max(progress, 0.0), 1.0)
