"""Episodes played with a policy that stands still while they are: here, or as tasks of `reelrl.parallel` elsewhere.

    learner ──► SacActor (arrays) ──► play_episode(env, actor, ...) ──► Trajectory (arrays, infos) ──► learner

What is played follows from the actor, the seed and the options alone: chance is drawn from the seed, not from the
learner's process. So an episode whose machine died is played again elsewhere, to the same numbers. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.seeding import stream

if TYPE_CHECKING:
    import gymnasium as gym

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]
_LOG_STD = (-20.0, 2.0)  # as Stable-Baselines3 bounds it


@dataclass(frozen=True, eq=False)
class SacActor:
    """The part of a SAC learner that acts, with its noise.

    hidden        layers, each followed by relu
    mean, spread  the last layers: of a normal distribution, and of the logarithm of its deviation
    low, high     range of each number of an action
    random_steps  so many steps of an episode are drawn evenly instead: the learner has seen too little
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

    def scaled(self, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """As the environment sees it."""
        return self.low + (action + 1) / 2 * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A whole episode.

    observations  (steps + 1, ...): before each step, and after the last one
    actions       (steps, ...) between -1 and 1
    random_steps  of the first ones, which say nothing about the policy
    """

    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    rewards: list[float]
    infos: list[dict[str, Any]]
    terminated: bool
    random_steps: int

    @property
    def steps(self) -> list[tuple[float, dict[str, Any]]]:
        """Reward and `info` of each step."""
        return list(zip(self.rewards, self.infos, strict=True))


def play_episode(env: gym.Env[Any, Any], actor: SacActor, *, seed: int, options: dict[str, Any]) -> Trajectory:
    """One episode from its reset to its end."""
    rng = stream(seed, "actions")
    observation, _ = env.reset(seed=seed, options=options)
    seen: list[NDArray[np.float32]] = [observation]
    actions: list[NDArray[np.float32]] = []
    rewards: list[float] = []
    infos: list[dict[str, Any]] = []
    terminated = truncated = False
    while not (terminated or truncated):
        at_random = len(actions) < actor.random_steps
        action = rng.uniform(-1, 1, len(actor.low)).astype(np.float32) if at_random else actor.draw(observation, rng)
        observation, reward, terminated, truncated, info = env.step(actor.scaled(action))
        seen.append(observation)
        actions.append(action)
        rewards.append(float(np.float32(reward)))
        infos.append(info)
    return Trajectory(
        np.stack(seen), np.stack(actions), rewards, infos, terminated, min(actor.random_steps, len(actions))
    )
