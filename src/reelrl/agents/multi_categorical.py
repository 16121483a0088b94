"""PPO over many small choices at once: one tensor operation where Stable-Baselines3 makes one object per choice.

    model = PPO(BatchedPolicy, env)        # env.action_space is MultiDiscrete([7] * 99)

The law is that of `MultiCategoricalDistribution`: the choices are independent given the observation. Networks, their
names and their initial weights are the same too, so either policy can take over the other's weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import MultiCategoricalDistribution
from stable_baselines3.common.policies import ActorCriticPolicy

if TYPE_CHECKING:
    from torch import Tensor


class BatchedMultiCategorical(MultiCategoricalDistribution):  # type: ignore[misc]
    """Independent categoricals as one tensor of log-probabilities, (batch, choices, options).

    Choices with fewer options than the largest are filled up with options that are never taken.
    """

    def __init__(self, action_dims: list[int]) -> None:
        super().__init__([int(size) for size in action_dims])
        self.options = max(self.action_dims)
        places = [i * self.options + j for i, size in enumerate(self.action_dims) for j in range(size)]
        self._places = None if len(set(self.action_dims)) == 1 else torch.tensor(places)
        self.log_probs = torch.empty(0)

    def proba_distribution(self, action_logits: Tensor) -> BatchedMultiCategorical:
        """Take the logits of all choices, one after another: (batch, sum of options)."""
        self.log_probs = torch.log_softmax(self._square(action_logits), dim=-1)
        return self

    def _square(self, logits: Tensor) -> Tensor:
        shape = (len(logits), len(self.action_dims), self.options)
        if self._places is None:
            return logits.view(shape)
        # The lowest finite number, not -inf: its probability is 0 and 0 * -inf would be NaN in the entropy.
        padded = logits.new_full((len(logits), len(self.action_dims) * self.options), torch.finfo(logits.dtype).min)
        return padded.index_copy(1, self._places.to(logits.device), logits).view(shape)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Of whole actions: the sum over their choices."""
        return self.log_probs.gather(-1, actions.long()[..., None])[..., 0].sum(dim=1)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=(1, 2))

    def sample(self) -> Tensor:
        flat = self.log_probs.exp().flatten(0, 1)
        return torch.multinomial(flat, 1).view(self.log_probs.shape[:2])

    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1)


class BatchedPolicy(ActorCriticPolicy):  # type: ignore[misc]
    """Stable-Baselines3's actor and critic, with the batched distribution where actions are MultiDiscrete."""

    def _build(self, lr_schedule: Any) -> None:
        if isinstance(self.action_space, spaces.MultiDiscrete):
            self.action_dist = BatchedMultiCategorical(self.action_space.nvec.tolist())
        super()._build(lr_schedule)
