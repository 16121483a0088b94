"""One PPO update on 99 superblocks: against a single action, and against stock Stable-Baselines3, in CPU time.

    python benchmarks/agents_update.py

Networks and observations are the same size for all (4 features of 99 superblocks), so only the action differs. Runs are
interleaved and the best of each counts; torch is held to one thread.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy

from reelrl.agents.learners import policy_of
from reelrl.agents.multi_categorical import BatchedPolicy

SUPERBLOCKS, OPTIONS, STEPS, ROUNDS = 99, 7, 128, 5
MOST_OVER_SINGLE, MOST_ACT_MS = 2.0, 2.0


class Noise(gym.Env[np.ndarray, Any]):
    """Random observations and rewards: what an update costs does not depend on them."""

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4 * SUPERBLOCKS,), np.float32)
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        return self._look(), float(self.np_random.normal()), False, False, {}

    def _look(self) -> np.ndarray:
        return self.np_random.standard_normal(4 * SUPERBLOCKS, dtype=np.float32)


def filled(policy: type, action_space: spaces.Space[Any]) -> Any:
    """A learner with a rollout collected, ready to update."""
    model = PPO(policy, Noise(action_space), n_steps=STEPS, batch_size=64, n_epochs=2, seed=0, device="cpu")
    model.set_logger(Logger(None, []))
    model.learn(STEPS)
    return model


def update_ms(model: Any) -> float:
    start = time.process_time()
    model.train()
    gradient_steps = int(model.n_epochs) * STEPS // int(model.batch_size)
    return (time.process_time() - start) * 1000 / gradient_steps


def act_ms(model: Any) -> float:
    observation = torch.zeros(1, 4 * SUPERBLOCKS)
    start = time.process_time()
    with torch.no_grad():
        for _ in range(20):
            model.policy(observation)
    return (time.process_time() - start) * 1000 / 20


def file_act_ms(model: Any) -> float:
    """A frame's decision by the saved policy, in numpy: what a controller costs."""
    policy, observation = policy_of(model), np.zeros(4 * SUPERBLOCKS, np.float32)
    start = time.process_time()
    for _ in range(50):
        policy.act(observation)
    return (time.process_time() - start) * 1000 / 50


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    many = spaces.MultiDiscrete([OPTIONS] * SUPERBLOCKS)
    models = {
        "single": filled(ActorCriticPolicy, spaces.Discrete(OPTIONS)),
        "batched": filled(BatchedPolicy, many),
        "stock": filled(ActorCriticPolicy, many),
    }
    updates, acts = dict.fromkeys(models, np.inf), dict.fromkeys(models, np.inf)
    for _ in range(ROUNDS):
        for name, model in models.items():
            updates[name] = min(updates[name], update_ms(model))
            acts[name] = min(acts[name], act_ms(model))
    for name in models:
        print(f"{name:<8}update {updates[name]:7.2f} ms per batch of 64   act {acts[name]:6.2f} ms per frame")
    ratio = updates["batched"] / updates["single"]
    verdict = "ok" if ratio <= MOST_OVER_SINGLE else "MISSED"
    print(f"99 superblocks / single action  {ratio:5.2f}   (at most {MOST_OVER_SINGLE})   {verdict}")
    print(f"stock / batched, update         {updates['stock'] / updates['batched']:5.1f}")
    print(f"stock / batched, act            {acts['stock'] / acts['batched']:5.1f}")
    trained = min(file_act_ms(models["batched"]) for _ in range(ROUNDS))
    print(f"trained policy from its file    {trained:5.2f} ms per frame   (at most {MOST_ACT_MS})")


if __name__ == "__main__":
    main()
