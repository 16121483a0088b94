"""Soft actor-critic under constraints: the most reward, while what each GOP costs stays at or below a limit on average.

                 ┌─► two reward critics, the smaller counts ──► Q
    observation ─┤                                                    the actor climbs  Q - Σ multiplier · C + entropy
      + action   └─► one critic per cost ────────────────────► C

    at each GOP's end:   error = the GOP's cost - its limit    ──► PID ──► multiplier >= 0

A Lagrange multiplier is the price of a cost: it rises while the limit is overstepped and falls while there is room.
Following the gradient of the Lagrangian is control by the integral alone; its proportional and derivative terms answer
at once and damp the swing (Stooke, Achiam and Abbeel, 2020). The temperature, the price of being predictable, is
learned as in Stable-Baselines3's SAC, whose keywords all hold. Costs come in `info["cost"]`, a number or one per limit;
a GOP ends where `info["gop_end"]` says so, and with the episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.utils import polyak_update
from stable_baselines3.sac.policies import SACPolicy
from torch import nn
from torch.nn.functional import mse_loss

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    from reelrl.agents.rollouts import Trajectory


@dataclass(frozen=True, kw_only=True)
class MultiplierTerms:
    """How the price of a cost moves, per GOP and per unit of error.

    form        "gradient" uses the integral term alone, "pid" all three
    smoothing   share of the old error that stays when a new one comes, for the proportional and derivative terms
    ceiling     the largest multiplier; the integral stops there too, so that it need not unwind for long
    """

    form: Literal["gradient", "pid"] = "pid"
    start: float = 0.0
    proportional: float = 1.0
    integral: float = 0.1
    derivative: float = 0.5
    smoothing: float = 0.8
    ceiling: float = 100.0

    def __post_init__(self) -> None:
        for name in ("start", "proportional", "integral", "derivative"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"multiplier {name} = {getattr(self, name)}; it is 0 or more")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"multiplier smoothing = {self.smoothing}; it is at least 0 and below 1")
        if not self.ceiling >= self.start:
            raise ConfigError(f"multiplier ceiling = {self.ceiling} is below its start = {self.start}; raise it")


class Multipliers(nn.Module):
    """The prices of all costs, and what has been spent in the GOPs under way. A module, so that checkpoints hold it."""

    value: Tensor
    integral: Tensor
    error: Tensor
    spent: Tensor

    def __init__(self, limits: tuple[float, ...], terms: MultiplierTerms, envs: int = 1) -> None:
        super().__init__()
        self.limits = torch.tensor(limits, dtype=torch.float64)
        self.terms = terms
        start = torch.full_like(self.limits, terms.start)
        self.register_buffer("value", start)
        self.register_buffer("integral", start.clone())
        self.register_buffer("error", torch.zeros_like(self.limits))
        self.register_buffer("spent", torch.zeros(envs, len(limits), dtype=torch.float64))

    def spend(self, env: int, costs: npt.NDArray[np.float32]) -> None:
        """Count what a step cost."""
        self.spent[env] += torch.from_numpy(costs.astype(np.float64))

    def end_gop(self, env: int) -> Tensor:
        """Move the prices by the GOP that ends; returns what it cost."""
        costs = self.spent[env].clone()
        self.spent[env] = 0
        self.update(costs)
        return costs

    def update(self, costs: Tensor) -> None:
        """Move the prices after a GOP of such costs."""
        terms, error = self.terms, costs - self.limits
        self.integral = (self.integral + terms.integral * error).clamp(0, terms.ceiling)
        price = self.integral
        if terms.form == "pid":
            before, self.error = self.error, torch.lerp(error, self.error, terms.smoothing)
            # Only a rising cost is braked: a falling one is what the price is for.
            price = price + terms.proportional * self.error + terms.derivative * (self.error - before).clamp(min=0)
        self.value = price.clamp(0, terms.ceiling)


class CostSamples(NamedTuple):
    """A batch of what was seen; `costs` is (batch, constraints), `rewards` and `dones` are (batch, 1)."""

    observations: Tensor
    actions: Tensor
    next_observations: Tensor
    dones: Tensor
    rewards: Tensor
    costs: Tensor


class CostReplayBuffer(ReplayBuffer):  # type: ignore[misc]
    """A replay buffer that remembers costs too."""

    def __init__(self, *args: Any, constraints: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.costs = np.zeros((self.buffer_size, self.n_envs, constraints), np.float32)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        self.costs[self.pos] = [costs_of(info, self.costs.shape[-1]) for info in infos]
        super().add(obs, next_obs, action, reward, done, infos)

    def _get_samples(self, batch_inds: npt.NDArray[np.int64], env: Any = None) -> CostSamples:  # noqa: ARG002
        envs = np.random.randint(self.n_envs, size=len(batch_inds))  # noqa: NPY002, RUF100  # as Stable-Baselines3 draws
        chosen = (batch_inds, envs)
        ends = self.dones[chosen] * (1 - self.timeouts[chosen])
        columns = (
            self.observations[chosen],
            self.actions[chosen],
            self.next_observations[chosen],
            ends[:, None],
            self.rewards[chosen][:, None],
            self.costs[chosen],
        )
        return CostSamples(*(self.to_torch(column) for column in columns))


def costs_of(info: dict[str, Any], constraints: int) -> npt.NDArray[np.float32]:
    """The costs that a step reports."""
    costs = np.atleast_1d(np.asarray(info.get("cost", np.nan), np.float32))
    if costs.shape != (constraints,) or not np.isfinite(costs).all():
        raise ConfigError(
            f"info['cost'] is {info.get('cost')!r}; the environment must give {constraints} finite cost(s) at each step"
        )
    return costs


class ConstrainedPolicy(SACPolicy):  # type: ignore[misc]
    """SAC's actor and reward critics, and a critic for each cost with its slow copy."""

    def __init__(self, *args: Any, constraints: int = 1, **kwargs: Any) -> None:
        self.constraints = constraints
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        with torch.no_grad():
            # The first actions are about zero, which where zero means "as the heuristic does" is a good beginning.
            self.actor.mu.weight.mul_(0.01)
            self.actor.mu.bias.zero_()
        self.cost_critic, self.cost_critic_target = self._make_cost_critic(), self._make_cost_critic()
        self.cost_critic_target.load_state_dict(self.cost_critic.state_dict())
        self.cost_critic_target.set_training_mode(False)
        self.cost_critic.optimizer = torch.optim.Adam(self.cost_critic.parameters(), lr=lr_schedule(1))

    def _make_cost_critic(self) -> ContinuousCritic:
        arguments = self._update_features_extractor({**self.critic_kwargs, "n_critics": self.constraints}, None)
        return ContinuousCritic(**arguments).to(self.device)


class ConstrainedSac(SAC):  # type: ignore[misc]
    """The learner, with the keywords of Stable-Baselines3's SAC and one limit per cost."""

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": ConstrainedPolicy}

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        limits: tuple[float, ...] = (0.0,),
        multiplier: MultiplierTerms | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        **shared: Any,
    ) -> None:
        self.limits = limits
        self.multiplier_terms = multiplier or MultiplierTerms()
        super().__init__(
            policy,
            env,
            replay_buffer_class=CostReplayBuffer,
            replay_buffer_kwargs={"constraints": len(limits)},
            policy_kwargs={**(policy_kwargs or {}), "constraints": len(limits)},
            **shared,
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        self.multipliers = Multipliers(self.limits, self.multiplier_terms, self.n_envs)
        self.cost_critic, self.cost_critic_target = self.policy.cost_critic, self.policy.cost_critic_target

    def _store_transition(
        self, replay_buffer: Any, buffer_action: Any, new_obs: Any, reward: Any, dones: Any, infos: list[dict[str, Any]]
    ) -> None:
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
        if self.num_timesteps <= self.learning_starts:
            return  # random actions say nothing about what the policy costs
        for env, (done, info) in enumerate(zip(dones, infos, strict=True)):
            self._spend(env, done, info)

    def remember(self, played: Trajectory) -> None:
        """Take in an episode that was played elsewhere, as if this learner had played it."""
        last = len(played.actions) - 1
        for number, (reward, info) in enumerate(played.steps):
            self.num_timesteps += 1
            cut = number == last and not played.terminated
            seen = played.observations[number : number + 2, None]
            self.replay_buffer.add(
                seen[0],
                seen[1],
                played.actions[number, None],
                np.array([reward]),
                np.array([number == last]),
                [{**info, "TimeLimit.truncated": cut}],
            )
            if number >= played.random_steps:
                self._spend(0, number == last, info)

    def _spend(self, env: int, done: bool, info: dict[str, Any]) -> None:
        self.multipliers.spend(env, costs_of(info, len(self.limits)))
        if done or info.get("gop_end", False):
            self._log_gop(self.multipliers.end_gop(env))

    def _log_gop(self, costs: Tensor) -> None:
        for index, (cost, price) in enumerate(zip(costs.tolist(), self.multipliers.value.tolist(), strict=True)):
            mark = f"_{index}" if len(self.limits) > 1 else ""
            self.logger.record(f"train/gop_cost{mark}", cost)
            self.logger.record(f"train/multiplier{mark}", price)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Improve on batches drawn from what was seen."""
        self.policy.set_training_mode(True)
        optimizers = [self.actor.optimizer, self.critic.optimizer, self.cost_critic.optimizer]
        self._update_learning_rate(optimizers + ([self.ent_coef_optimizer] if self.ent_coef_optimizer else []))
        losses = [self._improve(self.replay_buffer.sample(batch_size)) for _ in range(gradient_steps)]
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name in losses[0]:
            self.logger.record(f"train/{name}", float(np.mean([each[name] for each in losses])))

    def _improve(self, batch: CostSamples) -> dict[str, float]:
        """One gradient step of everything; returns its figures."""
        actions, log_prob = self.actor.action_log_prob(batch.observations)
        log_prob = log_prob[:, None]
        alpha = self._learn_temperature(log_prob.detach())
        critic_loss, cost_loss = self._learn_critics(batch, alpha)
        gain = torch.cat(self.critic(batch.observations, actions), dim=1).amin(dim=1, keepdim=True)
        costs = torch.cat(self.cost_critic(batch.observations, actions), dim=1)
        price = self.multipliers.value.to(costs)
        actor_loss = (alpha * log_prob - gain + (price * costs).sum(dim=1, keepdim=True)).mean()
        _descend(self.actor.optimizer, actor_loss)
        polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
        polyak_update(self.cost_critic.parameters(), self.cost_critic_target.parameters(), self.tau)
        return {
            "alpha": float(alpha),
            "actor_loss": float(actor_loss.detach()),
            "critic_loss": critic_loss,
            "cost_critic_loss": cost_loss,
        }

    def _learn_temperature(self, log_prob: Tensor) -> Tensor:
        """Move the temperature towards the wanted entropy; returns what it was."""
        if self.ent_coef_optimizer is None:
            fixed: Tensor = self.ent_coef_tensor
            return fixed
        alpha: Tensor = self.log_ent_coef.detach().exp()
        _descend(self.ent_coef_optimizer, -(self.log_ent_coef * (log_prob + self.target_entropy)).mean())
        return alpha

    def _learn_critics(self, batch: CostSamples, alpha: Tensor) -> tuple[float, float]:
        with torch.no_grad():
            following, log_prob = self.actor.action_log_prob(batch.next_observations)
            ahead = self.gamma * (1 - batch.dones)
            values = torch.cat(self.critic_target(batch.next_observations, following), dim=1).amin(dim=1, keepdim=True)
            rewards = batch.rewards + ahead * (values - alpha * log_prob[:, None])
            later_costs = torch.cat(self.cost_critic_target(batch.next_observations, following), dim=1)
            costs = batch.costs + ahead * later_costs
        guesses = self.critic(batch.observations, batch.actions)
        loss = 0.5 * torch.stack([mse_loss(guess, rewards) for guess in guesses]).sum()
        _descend(self.critic.optimizer, loss)
        guessed_costs = torch.cat(self.cost_critic(batch.observations, batch.actions), dim=1)
        cost_loss = 0.5 * mse_loss(guessed_costs, costs)
        _descend(self.cost_critic.optimizer, cost_loss)
        return float(loss.detach()), float(cost_loss.detach())

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, variables = super()._get_torch_save_params()
        return [*modules, "cost_critic.optimizer", "multipliers"], variables


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
