"""Small environments with known answers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Bandit(gym.Env[np.ndarray, np.ndarray]):
    """Each choice has one right option, told by the sign of its input; the reward is the share of right ones."""

    def __init__(self, options: tuple[int, ...] = (4, 4, 4), length: int = 8) -> None:
        self.options = np.array(options)
        self.length = length
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(options),), np.float32)
        self.action_space = spaces.MultiDiscrete(self.options)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.look(), {}

    def look(self) -> np.ndarray:
        self.observation = np.sign(self.np_random.standard_normal(len(self.options))).astype(np.float32)
        return self.observation

    def right(self) -> np.ndarray:
        return np.where(self.observation > 0, self.options - 1, 1)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float((action == self.right()).mean())
        self.time += 1
        return self.look(), reward, self.time >= self.length, False, {}

    def episode_record(self) -> dict[str, Any]:
        return {"steps": self.time}


class Dial(gym.Env[np.ndarray, np.ndarray]):
    """Continuous: the reward is how near the action is to the observation."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.look(), {}

    def look(self) -> np.ndarray:
        self.observation = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.observation

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = -float(np.abs(action - self.observation).mean())
        self.time += 1
        return self.look(), reward, self.time >= 5, False, {}


class Allowance(gym.Env[np.ndarray, np.ndarray]):
    """Something of worth w in [0, 1] is offered at each step; spending u = (action + 1) / 2 on it gives w u - u²/2.

    What was spent is felt as cost one step later. With a mean cost of (1 - p)²/2 allowed, the best one can do is to
    spend max(0, w - p): the price is p, and the mean reward (1 - p)³/6 + p (1 - p)²/2.
    """

    def __init__(self, length: int = 16) -> None:
        self.length = length
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.spent = 0, 0.0
        return self.look(), {}

    def look(self) -> np.ndarray:
        self.worth = float(self.np_random.uniform())
        return np.array([self.worth, self.spent], np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        spend = float(action[0] + 1) / 2
        info = {"cost": self.spent, "gop_end": self.time % 8 == 7}
        reward = self.worth * spend - spend**2 / 2
        self.spent = spend
        self.time += 1
        return self.look(), reward, False, self.time >= self.length, info
