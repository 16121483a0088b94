"""From settings to a Stable-Baselines3 learner, and from a learner to a policy file."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

from gymnasium import spaces
from stable_baselines3 import PPO
from torch import nn

from reelrl.agents.branching_dqn import BranchingDqn, BranchingPolicy
from reelrl.agents.episode_learners import EpisodeDqn, EpisodePpo, PlayEpisodes
from reelrl.agents.multi_categorical import BatchedPolicy
from reelrl.agents.rollouts import PolicyActor
from reelrl.errors import ConfigError
from reelrl.runs.policy_file import Activation, Layer, Policy
from reelrl.seeding import seed_for


@dataclass(frozen=True, kw_only=True)
class PpoTerms:
    """Constants of PPO."""

    epochs: int = 10
    trace_decay: float = 0.95  # GAE's lambda
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    gradient_norm: float = 0.5


@dataclass(frozen=True, kw_only=True)
class DqnTerms:
    """Constants of the branching DQN. Counts are in steps; exploration falls over `explore_share` of the training."""

    buffer: int = 100_000
    starts: int = 1000
    tau: float = 1.0
    train_every: int = 4
    target_every: int = 1000
    explore_start: float = 1.0
    explore_end: float = 0.02
    explore_share: float = 0.1
    gradient_norm: float = 10.0


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """How a policy is learned. `n_steps` is PPO's rollout in steps per environment; -1 is one whole episode."""

    algorithm: Literal["ppo", "dqn"] = "ppo"
    learning_rate: float = 3e-4
    batch_size: int = 64
    n_steps: int = -1
    discount: float = 0.99
    hidden: tuple[int, ...] = (64, 64)
    ppo: PpoTerms = field(default_factory=PpoTerms)
    dqn: DqnTerms = field(default_factory=DqnTerms)

    def __post_init__(self) -> None:
        if self.n_steps != -1 and self.n_steps < 2:
            raise ConfigError(f"n_steps = {self.n_steps}; use -1 for one episode, or 2 or more")
        if self.batch_size < 2:
            raise ConfigError(f"batch_size = {self.batch_size}; it is 2 or more")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate = {self.learning_rate}; it is above zero")


def make_learner(
    settings: LearnerSettings, env: Any, *, frames: int, seed: int, episodes: PlayEpisodes | None = None
) -> Any:
    """A new learner for the environments; `frames` is the length of an episode.

    With `episodes` it learns from those, whole ones, and `env` is one environment like those that they are played in.
    """
    make = {"ppo": _make_ppo, "dqn": _make_dqn}[settings.algorithm]
    model = make(settings, env, frames, seed_for(seed, "learner") % 2**31, episodes is not None)
    if episodes is not None:
        model.play, model.acting = episodes, lambda: acting(model)
    return model


def _make_ppo(settings: LearnerSettings, env: Any, frames: int, seed: int, by_episodes: bool) -> Any:
    terms = settings.ppo
    steps = max(frames, 2) if settings.n_steps == -1 else settings.n_steps
    with warnings.catch_warnings():
        # An episode is as long as the clip is: the last batch of an epoch is smaller, and that is fine.
        warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        return (EpisodePpo if by_episodes else PPO)(
            BatchedPolicy,
            env,
            learning_rate=settings.learning_rate,
            n_steps=steps,
            batch_size=min(settings.batch_size, steps * env.num_envs),
            n_epochs=terms.epochs,
            gamma=settings.discount,
            gae_lambda=terms.trace_decay,
            clip_range=terms.clip,
            ent_coef=terms.entropy,
            vf_coef=terms.value,
            max_grad_norm=terms.gradient_norm,
            policy_kwargs={"net_arch": list(settings.hidden)},
            seed=seed,
            device="cpu",
        )


def _make_dqn(settings: LearnerSettings, env: Any, _: int, seed: int, by_episodes: bool) -> Any:
    if not isinstance(env.action_space, spaces.MultiDiscrete):
        raise ConfigError(f"DQN chooses among options and the action is {env.action_space}; use MultiDiscrete, or PPO")
    terms = settings.dqn
    return (EpisodeDqn if by_episodes else BranchingDqn)(
        BranchingPolicy,
        env,
        learning_rate=settings.learning_rate,
        batch_size=settings.batch_size,
        gamma=settings.discount,
        buffer_size=terms.buffer,
        learning_starts=terms.starts,
        tau=terms.tau,
        train_freq=terms.train_every,
        target_update_interval=terms.target_every,
        exploration_initial_eps=terms.explore_start,
        exploration_final_eps=terms.explore_end,
        exploration_fraction=terms.explore_share,
        max_grad_norm=terms.gradient_norm,
        policy_kwargs={"hidden": settings.hidden},
        seed=seed,
        device="cpu",
    )


def policy_of(model: Any, levels: tuple[float, ...] = (), **facts: Any) -> Policy:
    """The part of a learner that acts; `levels` as in `Policy`."""
    activation: Activation
    if isinstance(model, BranchingDqn):
        network, activation = model.policy.q_net, "relu"
        layers = _layers([*network.trunk, network.advantages])
        real = network.exists.flatten().cpu().numpy()
        layers[-1] = (layers[-1][0][real], layers[-1][1][real])
    else:
        activation = "tanh"
        layers = _layers([*model.policy.mlp_extractor.policy_net, model.policy.action_net])
    space = model.action_space
    if isinstance(space, spaces.Box):
        return Policy(layers, activation, low=_flat(space.low), high=_flat(space.high), facts=facts)
    options = tuple(space.nvec.tolist()) if isinstance(space, spaces.MultiDiscrete) else (int(space.n),)
    return Policy(layers, activation, options=options, levels=levels, facts=facts)


def acting(model: Any) -> PolicyActor:
    """The learner's actor as it is now, with its noise, to be played with elsewhere."""
    policy = policy_of(model)
    if isinstance(model, BranchingDqn):
        random_steps = max(model.learning_starts - model.num_timesteps, 0)
        return PolicyActor(policy, explore=float(model.exploration_rate), random_steps=random_steps)
    is_box = isinstance(model.action_space, spaces.Box)
    return PolicyActor(policy, spread=model.policy.log_std.detach().cpu().numpy().copy() if is_box else None)


def _layers(modules: list[nn.Module]) -> list[Layer]:
    linear = [module for module in modules if isinstance(module, nn.Linear)]
    return [(layer.weight.detach().cpu().numpy().copy(), layer.bias.detach().cpu().numpy().copy()) for layer in linear]


def _flat(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values.ravel())
