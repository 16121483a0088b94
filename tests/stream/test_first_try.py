"""Somebody's first try: Stable-Baselines3's PPO on the default environment learns something in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.slow, pytest.mark.long]

LOWEST = 0.29  # always the lowest rung, nothing stalls


def qoe(choose: Callable[[Any], int]) -> float:
    """Per chunk, over ten sessions."""
    env, rewards = gymnasium.make("reelrl:reelrl/Abr-v0"), []
    for episode in range(10):
        (observation, _), ended = env.reset(seed=episode), False
        while not ended:
            observation, reward, ended, _, _ = env.step(choose(observation))
            rewards.append(float(reward))
    return float(np.mean(rewards))


@pytest.mark.parametrize("normalised", [True, False])
def test_twenty_thousand_steps_are_better_than_the_lowest_rung(normalised: bool) -> None:
    """As docs/how-to/use-the-environments.md shows it, and with the learner's own defaults."""
    learner = pytest.importorskip("stable_baselines3")
    wrappers = pytest.importorskip("stable_baselines3.common.vec_env")
    torch.set_num_threads(1)

    def make() -> Any:
        return gymnasium.make("reelrl:reelrl/Abr-v0")

    if normalised:
        envs = wrappers.VecNormalize(wrappers.DummyVecEnv([make] * 8), norm_obs=False)
        model = learner.PPO("MlpPolicy", envs, n_steps=128, batch_size=256, gamma=0.97, seed=0, device="cpu")
    else:
        model = learner.PPO("MlpPolicy", make(), seed=0, device="cpu")
    model.learn(20_000)
    reached = qoe(lambda observation: int(model.predict(observation, deterministic=True)[0]))
    assert qoe(lambda _: 0) == pytest.approx(LOWEST, abs=0.05)
    assert reached > LOWEST + (0.4 if normalised else 0.1)
