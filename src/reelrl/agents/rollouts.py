"""Episodes played with a policy that stands still while they are: here, or as tasks of `reelrl.parallel` elsewhere.

    learner ──► actor (arrays) ──► play_episode(env, actor, ...) ──► Trajectory (arrays, infos) ──► learner

What is played follows from the actor, the seed and the options alone: chance is drawn from the seed, not from the
learner's process. So an episode whose machine died is played again elsewhere, to the same numbers. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reelrl.runs.policy_file import Policy
from reelrl.seeding import stream

if TYPE_CHECKING:
    import gymnasium as gym

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]
_LOG_STD = (-20.0, 2.0)  # as Stable-Baselines3 bounds it


class Actor(Protocol):
    """Who plays an episode; so many steps of it are drawn evenly instead, where the learner has seen too little."""

    @property
    def random_steps(self) -> int: ...
    def draw(self, observation: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]: ...  # as the learner sees it
    def draw_evenly(self, rng: np.random.Generator) -> NDArray[Any]: ...
    def scaled(self, action: NDArray[Any]) -> NDArray[Any]: ...  # as the environment sees it


@dataclass(frozen=True, eq=False)
class SacActor:
    """The part of a SAC learner that acts, with its noise.

    hidden        layers, each followed by relu
    mean, spread  the last layers: of a normal distribution, and of the logarithm of its deviation
    low, high     range of each number of an action
    """

    hidden: list[Layer]
    mean: Layer
    spread: Layer
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    random_steps: int = 0

    def draw(self, observation: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        """An action between -1 and 1, as the learner sees it."""
        values = np.asarray(observation, np.float32).ravel()
        for weight, bias in self.hidden:
            values = np.maximum(weight @ values + bias, 0)
        mean, spread = (weight @ values + bias for weight, bias in (self.mean, self.spread))
        noise = rng.standard_normal(len(mean)).astype(np.float32)
        drawn: NDArray[np.float32] = np.tanh(mean + np.exp(np.clip(spread, *_LOG_STD)) * noise)
        return drawn

    def draw_evenly(self, rng: np.random.Generator) -> NDArray[np.float32]:
        return rng.uniform(-1, 1, len(self.low)).astype(np.float32)

    def scaled(self, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """As the environment sees it."""
        return self.low + (action + 1) / 2 * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class PolicyActor:
    """The greedy policy of a learner, with its noise.

    spread   of values (PPO): the logarithm of their deviation
    explore  of options (DQN): how many of the choices are drawn evenly; None draws each by its score (PPO)
    """

    policy: Policy
    spread: NDArray[np.float32] | None = None
    explore: float | None = None
    random_steps: int = 0

    def draw(self, observation: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        scores = self.policy.scores(observation)
        if self.spread is not None:
            noise = rng.standard_normal(len(scores)).astype(np.float32)
            return (scores + np.exp(self.spread) * noise).astype(np.float32)
        if self.explore is None:
            return self.policy.best_options(scores + rng.gumbel(size=len(scores)))
        explores = rng.random(len(self.policy.options)) < self.explore
        return np.where(explores, self.draw_evenly(rng), self.policy.best_options(scores))

    def draw_evenly(self, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(np.array(self.policy.options))

    def scaled(self, action: NDArray[Any]) -> NDArray[Any]:
        return action if self.spread is None else self.policy.within(action)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A whole episode.

    observations  (steps + 1, ...): before each step, and after the last one
    actions       (steps, ...) as the learner sees them
    random_steps  of the first ones, which say nothing about the policy
    """

    observations: NDArray[np.float32]
    actions: NDArray[Any]
    rewards: list[float]
    infos: list[dict[str, Any]]
    terminated: bool
    random_steps: int

    @property
    def steps(self) -> list[tuple[float, dict[str, Any]]]:
        """Reward and `info` of each step."""
        return list(zip(self.rewards, self.infos, strict=True))


def play_episode(
    env: gym.Env[Any, Any], actor: Actor, *, seed: int, options: dict[str, Any] | None = None
) -> Trajectory:
    """One episode from its reset to its end."""
    rng = stream(seed, "actions")
    observation, _ = env.reset(seed=seed, options=options)
    seen: list[NDArray[np.float32]] = [observation]
    actions: list[NDArray[Any]] = []
    rewards: list[float] = []
    infos: list[dict[str, Any]] = []
    terminated = truncated = False
    while not (terminated or truncated):
        at_random = len(actions) < actor.random_steps
        action = actor.draw_evenly(rng) if at_random else actor.draw(observation, rng)
        observation, reward, terminated, truncated, info = env.step(actor.scaled(action))
        seen.append(observation)
        actions.append(action)
        rewards.append(float(np.float32(reward)))
        infos.append(info)
    return Trajectory(
        np.stack(seen), np.stack(actions), rewards, infos, terminated, min(actor.random_steps, len(actions))
    )
