"""One training of a Stable-Baselines3 learner in a run folder: continued, watched, stopped.

training = Training(model, run, evaluate=..., on_step=..., on_episode=..., ...)
training.resume()                      # to the newest checkpoint, if there is one
training.learn(total_steps)            # raises Interrupted after Ctrl+C or SIGTERM, when all is saved
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from reelrl import seeding
from reelrl.agents import checkpointing
from reelrl.runs.checkpoints import restoring
from reelrl.runs.folder import Run
from reelrl.runs.saving import Saving
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

Figures = dict[str, float]
_BEST = "best_policy"  # of the checkpoint's arrays: the bytes of the best policy's file


@dataclass
class Training:
    """Runs `model` in `run`, and reports what happens.

    evaluate      plays the policy as it is and returns its figures, with "eval/reward", every `eval_every` steps
    on_best       called when that reward is the best so far: with the step and the figures
    best_file     where it writes the policy, if it does
    on_step       called with the steps made in all
    on_episode    called when an episode has ended: with the step and its `info`
    saving        when to save besides, every `save_every` steps, and when to stop
    """

    model: Any
    run: Run
    evaluate: Callable[[], Figures]
    on_best: Callable[[int, Figures], None]
    on_step: Callable[[int], None]
    on_episode: Callable[[int, dict[str, Any]], None]
    eval_every: int
    save_every: int
    saving: Saving = field(default_factory=Saving)
    best_file: Path | None = None

    def __post_init__(self) -> None:
        self.noted = 0  # the step of the last look at what is due
        self.best = -math.inf
        self.model.set_logger(Logger(None, [_RunWriter(self.run)]))

    def resume(self) -> bool:
        """Go back to the run's newest checkpoint, if it has one."""
        saved = self.run.resume()
        if saved is None:
            return False
        with restoring(saved.folder):
            checkpointing.restore(self.model, saved.tensors, saved.state["learner"])
            self.noted, self.best = int(saved.state["noted"]), float(saved.state["best"])
        if self.best_file and _BEST in saved.tensors:
            write_atomic(self.best_file, saved.tensors[_BEST].tobytes())
        return True

    def learn(self, total_steps: int) -> None:
        """Train until the learner has made `total_steps` in all; an interrupt ends it after the current rollout."""
        fresh = self.model.num_timesteps == 0
        left = total_steps - self.model.num_timesteps
        if left <= 0:
            return
        with self.saving:
            self.model.learn(left, callback=_TrainingHooks(self), log_interval=1, reset_num_timesteps=fresh)
        self.save()

    def save(self) -> None:
        """A checkpoint of this moment; only between rollouts."""
        tensors, state = checkpointing.export(self.model)
        if self.best_file and self.best_file.is_file():
            # The best may be of a later evaluation than the checkpoint, and go back with it.
            tensors[_BEST] = np.frombuffer(self.best_file.read_bytes(), np.uint8)
        ours = {"learner": state, "noted": self.noted, "best": self.best}
        self.run.checkpoint(self.model.num_timesteps, tensors, ours)

    def assess(self) -> Figures:
        """Evaluate now, and log it."""
        step, figures = self.model.num_timesteps, self.evaluate()
        self.run.log_metrics(step, figures)
        if figures["eval/reward"] > self.best:
            self.best = figures["eval/reward"]
            self.on_best(step, figures)
        return figures

    def between_rollouts(self) -> None:
        """Evaluate and save when it is time; the learner's state is whole only here."""
        step = self.model.num_timesteps
        before, self.noted = self.noted, step
        if step // self.eval_every > before // self.eval_every:
            self.assess()
        due = step // self.save_every > before // self.save_every
        self.saving.reached(f"step {step}", self.save, due=due)


class _TrainingHooks(BaseCallback):  # type: ignore[misc]
    """Stable-Baselines3's hooks, passed on to the training."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.training = training

    def _on_rollout_start(self) -> None:
        self.training.between_rollouts()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.training.on_episode(self.num_timesteps, info)
        self.training.on_step(self.num_timesteps)
        return True


class _RunWriter(KVWriter):  # type: ignore[misc]
    """The learner's own figures, into the run's metrics; its clock into TensorBoard only, so that runs compare."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:  # noqa: ARG002
        figures = checkpointing.figures(key_values)
        self.run.log_metrics(step, {name: value for name, value in figures.items() if not name.startswith("time/")})
        if "time/fps" in figures:
            self.run.board.scalars(step, {"time/fps": figures["time/fps"]})

    def close(self) -> None:
        """Nothing to do: the run closes its logs."""


class Retraceable(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that can be brought back into the middle of an episode.

    It also reports ended episodes: `info["episode"]` has the reward `r`, the length `l` and the seconds `t` since the
    beginning; `info["record"]` what the environment's own `episode_record` says, if it has one.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._seed: int | None = None
        self._beginning: dict[str, Any] = {}
        self._actions: list[NDArray[Any]] = []
        self._reward = 0.0
        self._start_s = time.monotonic()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seed = self._seed if seed is None else seed
        generator = seeding.capture(self.unwrapped.np_random) if seed is None else {}
        self._beginning = {"seed": self._seed, **generator}
        self._actions, self._reward = [], 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._actions.append(np.array(action))
        self._reward += float(reward)
        if terminated or truncated:
            info["episode"] = {"r": self._reward, "l": len(self._actions), "t": self._elapsed_s()}
            info["record"] = getattr(self.unwrapped, "episode_record", dict)()
        return observation, reward, terminated, truncated, info

    def trace(self) -> tuple[dict[str, Any], NDArray[Any]]:
        """How to come back here: plain data, and the actions since the episode began."""
        actions = np.stack(self._actions) if self._actions else np.zeros(0)
        return {**self._beginning, "elapsed_s": self._elapsed_s()}, actions

    def retrace(self, beginning: dict[str, Any], actions: NDArray[Any]) -> Any:
        """Go back to where `trace` was called; returns the observation there."""
        observation, _ = self.reset(seed=beginning["seed"])
        if "generator" in beginning:
            self.unwrapped.np_random = seeding.restore(beginning)
            observation, _ = self.reset()
        for action in actions:
            observation = self.step(action)[0]
        self._start_s = time.monotonic() - float(beginning["elapsed_s"])
        return observation

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._start_s


def vectorise(envs: list[gym.Env[Any, Any]]) -> Any:
    """The environments as Stable-Baselines3 wants them, ready for exact checkpoints."""
    wrapped = [Retraceable(env) for env in envs]
    return DummyVecEnv([lambda env=env: env for env in wrapped])
