"""A corridor to walk along, and all that an environment can do wrong; a game's process imports this to register it."""

from __future__ import annotations

import os
import signal
from typing import Any

import gymnasium as gym
import numpy as np

HERE = "tests.content.games.corridor"
LENGTH = 5
BAD_STEP = 3
"""The step of an episode at which a fault shows."""


class Corridor(gym.Env[Any, Any]):
    """Left and right; the right end pays 1 and ends the episode, and so do 20 steps without pay."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    observation_space = gym.spaces.Box(-1.0, 30.0, (2,), np.float32)

    def __init__(self, render_mode: str | None = None, fault: str = "") -> None:
        self.render_mode, self.fault = render_mode, fault
        self.action_space: Any = gym.spaces.Discrete(2)
        if fault == "continuous":
            self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(3)), 0
        if self.fault == "unseeded":
            self.place = os.getpid()  # another one in each process
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place = max(self.place + (1 if action else -1), 0)
        done = self.place == LENGTH
        reward = float(done)
        if self.steps == BAD_STEP:
            reward = self._go_wrong(reward)
        return self._seen(), reward, done, self.steps == 20, {}

    def render(self) -> Any:
        picture = np.zeros((24, 32, 3), np.uint8)
        picture[:, 4 * self.place : 4 * self.place + 4] = 255
        return picture

    def _go_wrong(self, reward: float) -> float:
        match self.fault:
            case "raises":
                raise ZeroDivisionError("the floor gave way")
            case "dies":
                os._exit(3)
            case "hangs":
                signal.pause()
            case "nan":
                return float("nan")
            case "actions":
                self.action_space = gym.spaces.Discrete(3)
        return reward

    def _seen(self) -> Any:
        place = np.nan if self.fault == "lost" and self.steps == BAD_STEP else self.place
        return np.array([place, self.steps], np.float32)


class Unseen(Corridor):
    """A corridor that nobody draws."""

    metadata = {"render_modes": []}  # noqa: RUF012


FAULTS = ("raises", "dies", "hangs", "nan", "lost", "actions", "continuous", "unseeded")
gym.register("Corridor-v0", f"{__name__}:Corridor")
gym.register("CorridorUnseen-v0", f"{__name__}:Unseen")
for each in FAULTS:
    gym.register(f"Corridor-{each}-v0", f"{__name__}:Corridor", kwargs={"fault": each})


def corridor(fault: str = "") -> str:
    """The source with this fault."""
    return f"gym:{HERE}:Corridor-{fault}-v0" if fault else f"gym:{HERE}:Corridor-v0"
