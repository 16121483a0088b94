"""Learning episode by episode, for environments whose episodes are real work: each starts an encoder.

    env = OneAtATime(make_env())
    model = make_sac(settings, env, seed=0)
    for number in range(episodes):
        steps = learn_episode(model, updates, seed=seed_for(0, "episode", number), options={"clip": number})

or, with episodes played side by side (`rollouts`):

    actor = acting(model)
    for played in work.map(play, [task_of(number, actor) for number in range(8)]):
        learn_from(model, played, updates)

Between two episodes nothing is under way: a checkpoint needs the learner and the number of the next episode, and what
the episode will be follows from that number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from reelrl.agents.constrained_sac import ConstrainedSac, MultiplierTerms
from reelrl.agents.rollouts import SacActor, play_episode
from reelrl.errors import ConfigError
from reelrl.runs.policy_file import Policy
from reelrl.seeding import seed_for

if TYPE_CHECKING:
    import gymnasium as gym

    from reelrl.agents.rollouts import Layer, Trajectory


@dataclass(frozen=True, kw_only=True)
class SacSettings:
    """How constrained SAC learns. Counts are in steps; `cost_limits` say what a GOP may cost, one per cost.

    updates         gradient steps per step of the environment, made when the episode is over
    target_entropy  of an action in nats; "auto" is minus the number of its parts, which is a lot of noise for one dial
    """

    learning_rate: float = 1e-3
    batch_size: int = 128
    discount: float = 0.95
    hidden: tuple[int, ...] = (64, 64)
    buffer: int = 100_000
    starts: int = 200
    updates: float = 1.0
    tau: float = 0.01
    temperature: float = 0.05
    target_entropy: float | Literal["auto"] = -1.5
    cost_limits: tuple[float, ...] = (0.01,)
    multiplier: MultiplierTerms = field(default_factory=MultiplierTerms)

    def __post_init__(self) -> None:
        for name in ("learning_rate", "batch_size", "buffer", "updates", "tau", "temperature"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is above zero")
        if not 0 <= self.discount < 1:
            raise ConfigError(f"discount = {self.discount}; it is at least 0 and below 1")
        if not self.cost_limits or not min(self.cost_limits) >= 0:
            raise ConfigError(f"cost_limits = {self.cost_limits}; give one per cost, 0 or more")


class OneAtATime(DummyVecEnv):  # type: ignore[misc]
    """One environment in which nothing begins by itself when an episode ends."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__([lambda: env])

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        observation, reward, terminated, truncated, info = self.envs[0].step(self.actions[0])
        info = {**info, "TimeLimit.truncated": truncated and not terminated}
        if terminated or truncated:
            info["terminal_observation"] = observation
        self._save_obs(0, observation)
        ended = np.array([terminated or truncated])
        return self._obs_from_buf(), np.array([reward], np.float32), ended, [info]


def make_sac(settings: SacSettings, env: OneAtATime, *, seed: int, device: str = "cpu") -> ConstrainedSac:
    """A new learner that trains after each episode; its figures stay in `model.logger.name_to_value`."""
    model = ConstrainedSac(
        "MlpPolicy",
        env,
        limits=settings.cost_limits,
        multiplier=settings.multiplier,
        learning_rate=settings.learning_rate,
        buffer_size=settings.buffer,
        learning_starts=settings.starts,
        batch_size=settings.batch_size,
        tau=settings.tau,
        gamma=settings.discount,
        train_freq=(1, "episode"),
        gradient_steps=0,  # `learn_episode` trains
        ent_coef=f"auto_{settings.temperature}",
        target_entropy=settings.target_entropy,
        policy_kwargs={"net_arch": list(settings.hidden)},
        seed=seed_for(seed, "learner") % 2**31,
        device=device,
    )
    model.set_logger(Logger(None, []))
    return model


def learn_episode(
    model: ConstrainedSac, updates: float, *, seed: int, options: dict[str, Any]
) -> list[tuple[float, dict[str, Any]]]:
    """Play one episode and learn from it; returns the reward and `info` of each step."""
    played = play_episode(model.env.envs[0], acting(model), seed=seed, options=options)
    learn_from(model, played, updates)
    return played.steps


def acting(model: ConstrainedSac) -> SacActor:
    """The learner's actor as it is now, to be played with elsewhere."""
    return SacActor(
        [_arrays(module) for module in model.actor.latent_pi if isinstance(module, torch.nn.Linear)],
        _arrays(model.actor.mu),
        _arrays(model.actor.log_std),
        model.action_space.low.ravel(),
        model.action_space.high.ravel(),
        random_steps=max(model.learning_starts - model.num_timesteps, 0),
    )


def learn_from(model: ConstrainedSac, played: Trajectory, updates: float) -> None:
    """Remember an episode, and learn from it and from those before it."""
    model.remember(played)
    if model.num_timesteps > model.learning_starts:
        model.train(max(round(len(played.actions) * updates), 1), model.batch_size)


def actor_policy(model: ConstrainedSac, **facts: Any) -> Policy:
    """The part of the learner that acts, without its noise."""
    modules = [*model.actor.latent_pi, model.actor.mu]
    arrays = [_arrays(module) for module in modules if isinstance(module, torch.nn.Linear)]
    space = model.action_space
    low, high = tuple(space.low.ravel().tolist()), tuple(space.high.ravel().tolist())
    return Policy(arrays, "relu", low=low, high=high, bounded="tanh", facts=facts)


def _arrays(layer: torch.nn.Linear) -> Layer:
    return layer.weight.detach().cpu().numpy().copy(), layer.bias.detach().cpu().numpy().copy()
