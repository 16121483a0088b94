"""Branching DQN: Q-learning where an action is many small choices (Tavakoli, Pardo and Kormushev, 2018).

                       ┌─► value ───────────────┐
    observation ─► trunk                        ├─► Q(choice, option) = value + advantage - mean advantage
                       └─► advantages per choice┘

A table of all actions would need 7^99 entries; here every choice has its own head of 7 on a shared trunk. All choices
share one target: the reward, plus what the target network gives, on average over the choices, to the options that the
learning network likes best (double Q-learning). Each choice explores on its own, so that a frame with 99 of them is
never all random or all greedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import FlattenExtractor, create_mlp
from stable_baselines3.common.utils import LinearSchedule, polyak_update
from torch import nn

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor


class BranchingNetwork(nn.Module):
    """Q-values of every option of every choice, (batch, choices, options); options that do not exist are -inf."""

    def __init__(self, inputs: int, options: list[int], hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = (len(options), max(options))
        layers = create_mlp(inputs, -1, list(hidden), nn.ReLU)
        self.trunk = nn.Sequential(*layers)
        width = hidden[-1] if hidden else inputs
        self.value = nn.Linear(width, 1)
        self.advantages = nn.Linear(width, len(options) * max(options))
        exists = torch.arange(max(options)) < torch.tensor(options)[:, None]
        self.register_buffer("exists", exists, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        exists: Tensor = self.exists  # type: ignore[assignment]
        latent = self.trunk(features)
        advantages = self.advantages(latent).view(-1, *self.shape)
        means = (advantages * exists).sum(-1, keepdim=True) / exists.sum(-1, keepdim=True)
        values: Tensor = self.value(latent)[..., None] + advantages - means
        return values.masked_fill(~exists, -torch.inf)


class BranchingPolicy(BasePolicy):  # type: ignore[misc]
    """The learning network and its slow copy."""

    def __init__(
        self, observation_space: Any, action_space: Any, lr_schedule: Any, hidden: tuple[int, ...] = (64, 64)
    ) -> None:
        super().__init__(observation_space, action_space, FlattenExtractor)
        self.features_extractor = self.make_features_extractor()
        sizes = (self.features_extractor.features_dim, action_space.nvec.tolist(), hidden)
        self.q_net = BranchingNetwork(*sizes)
        self.q_net_target = BranchingNetwork(*sizes).requires_grad_(False)
        self.q_net_target.load_state_dict(self.q_net.state_dict())
        self.optimizer = torch.optim.Adam(self.q_net.parameters(), lr=lr_schedule(1))

    def q_values(self, observations: Tensor, network: nn.Module) -> Tensor:
        values: Tensor = network(self.extract_features(observations, self.features_extractor))
        return values

    def forward(self, observations: Tensor, deterministic: bool = True) -> Tensor:
        return self._predict(observations, deterministic)

    def _predict(self, observation: Tensor, deterministic: bool = True) -> Tensor:  # noqa: ARG002
        return self.q_values(observation, self.q_net).argmax(dim=-1)


class BranchingDqn(OffPolicyAlgorithm):  # type: ignore[misc]
    """The learner, with the keywords of Stable-Baselines3's DQN; for MultiDiscrete actions."""

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": BranchingPolicy}

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        target_update_interval: int = 1000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.02,
        max_grad_norm: float = 10.0,
        train_freq: int = 4,
        **shared: Any,
    ) -> None:
        super().__init__(
            policy,
            env,
            train_freq=train_freq,
            sde_support=False,
            support_multi_env=True,
            supported_action_spaces=(spaces.MultiDiscrete,),
            **shared,
        )
        self.target_update_interval = target_update_interval
        self.max_grad_norm = max_grad_norm
        self.exploration_schedule = LinearSchedule(exploration_initial_eps, exploration_final_eps, exploration_fraction)
        self.exploration_rate = exploration_initial_eps
        self._n_calls = 0
        self._setup_model()

    def _on_step(self) -> None:
        """After each step: explore less, and bring the target network up to date when it is time."""
        self._n_calls += 1
        if self._n_calls % max(self.target_update_interval // self.n_envs, 1) == 0:
            polyak_update(self.policy.q_net.parameters(), self.policy.q_net_target.parameters(), self.tau)
        self.exploration_rate = self.exploration_schedule(self._current_progress_remaining)
        self.logger.record("rollout/exploration_rate", self.exploration_rate)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Improve on batches drawn from what was seen."""
        self._update_learning_rate(self.policy.optimizer)
        losses = [self._improve(self.replay_buffer.sample(batch_size)) for _ in range(gradient_steps)]
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", float(np.mean(losses)))

    def _improve(self, batch: Any) -> float:
        """One gradient step; returns the loss."""
        values = self.policy.q_values(batch.observations, self.policy.q_net)
        taken = values.gather(-1, batch.actions.long()[..., None])[..., 0]
        loss = nn.functional.smooth_l1_loss(taken, self._targets(batch).expand_as(taken))
        self.policy.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.policy.q_net.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def _targets(self, batch: Any) -> Tensor:
        """What every choice of a step should have been worth, (batch, 1)."""
        liked = self.policy.q_values(batch.next_observations, self.policy.q_net).argmax(dim=-1, keepdim=True)
        following = self.policy.q_values(batch.next_observations, self.policy.q_net_target).gather(-1, liked)
        targets: Tensor = batch.rewards + (1 - batch.dones) * self.gamma * following.mean(dim=1)
        return targets

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[npt.NDArray[Any], Any]:
        """The best options; unless `deterministic`, each choice is random with the exploration rate."""
        actions, state = self.policy.predict(observation, state, episode_start, deterministic)
        if deterministic:
            return actions, state
        options = self.action_space.nvec
        # numpy's hidden generator, as Stable-Baselines3 does: checkpoints carry its state.
        explores = np.random.random(actions.shape) < self.exploration_rate  # noqa: NPY002, RUF100
        return np.where(explores, np.random.randint(options, size=actions.shape), actions), state  # noqa: NPY002, RUF100

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], []
