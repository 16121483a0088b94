"""A Stable-Baselines3 learner in our checkpoints: everything that decides what happens next, and no pickles.

    env = DummyVecEnv([lambda: Retraceable(make_env())])
    model = PPO(BatchedPolicy, env, seed=0)
    tensors, state = export(model)         # between two rollouts
    restore(model, tensors, state)         # in another process: goes on to the same bits

Encoders and simulators cannot be saved in the middle of an episode. `Retraceable` keeps the chance at its start and the
actions since, and plays them again: the same environment answers with the same bytes.
"""

from __future__ import annotations

import time
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch

from reelrl import seeding
from reelrl.agents.ppo import to_arrays
from reelrl.errors import CheckpointError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = dict[str, "NDArray[Any]"]

# Plain attributes of a learner that its future depends on; those that an algorithm lacks are skipped.
COUNTERS = (
    "num_timesteps",
    "_n_updates",
    "_episode_num",
    "_n_calls",
    "exploration_rate",
    "_current_progress_remaining",
)
REPLAYED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts", "costs")


class Retraceable(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that can be brought back into the middle of an episode.

    It also tells of ended episodes: `info["episode"]` has the reward `r`, the length `l` and the seconds `t` since the
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
        chance = seeding.capture(self.unwrapped.np_random) if seed is None else {}
        self._beginning = {"seed": self._seed, **chance}
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


def export(model: Any, *, replay: bool = True) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and plain data that `restore` needs. Call it between two rollouts, not within one.

    Without `replay` the buffer of what was seen stays out: a smaller file, from which training goes on differently.
    """
    traces = [] if model._last_obs is None else model.env.env_method("trace")  # None: no episode has begun
    tensors = to_arrays({f"{name}.": part.state_dict() for name, part in _modules(model).items()})
    tensors |= to_arrays({f"adam.{name}.": _moments(part) for name, part in _optimizers(model).items()})
    tensors |= to_arrays({"variable.": _variables(model)})
    tensors |= {f"env.{index}.actions": actions for index, (_, actions) in enumerate(traces)}
    if traces:
        tensors |= {"last.observations": model._last_obs, "last.starts": model._last_episode_starts}
    buffer = getattr(model, "replay_buffer", None) if replay else None
    if buffer is not None:
        tensors |= {f"replay.{name}": getattr(buffer, name)[: buffer.size()] for name in _replayed(buffer)}
    state = {
        "counters": {name: getattr(model, name) for name in COUNTERS if hasattr(model, name)},
        "replay": {"pos": buffer.pos, "full": buffer.full} if buffer is not None else {},
        "chance": seeding.capture_globals(),
        "action_chance": seeding.capture(model.action_space.np_random),
        "envs": [beginning for beginning, _ in traces],
        "recent": [figures(episode) for episode in model.ep_info_buffer or ()],
        "unlogged": figures(model.logger.name_to_value),
    }
    return tensors, state


def restore(model: Any, tensors: Arrays, state: dict[str, Any]) -> None:
    """Bring a new learner, made with the same settings, to where `export` was called."""
    try:
        for name, module in _modules(model).items():
            module.load_state_dict(_tensors(tensors, f"{name}."))
    except RuntimeError as error:
        raise CheckpointError(f"the checkpoint is of another learner ({error}); use the settings it had") from error
    for name, optimizer in _optimizers(model).items():
        _restore_moments(optimizer, _tensors(tensors, f"adam.{name}."))
    with torch.no_grad():
        for name, variable in _variables(model).items():
            variable.copy_(torch.from_numpy(tensors[f"variable.{name}"].copy()))
    for name, value in state["counters"].items():
        setattr(model, name, value)
    if state["replay"]:
        buffer = model.replay_buffer
        for name in _replayed(buffer):
            saved = tensors[f"replay.{name}"]
            getattr(buffer, name)[: len(saved)] = saved
        buffer.pos, buffer.full = state["replay"]["pos"], state["replay"]["full"]
    model.ep_info_buffer, model.ep_success_buffer = deque(state["recent"], maxlen=100), deque(maxlen=100)
    for name, value in state["unlogged"].items():
        model.logger.record(name, value)
    if state["envs"]:
        model._last_episode_starts = tensors["last.starts"]
        model._last_obs = _retrace(model.env, tensors, state["envs"])
    # Last: retracing may draw, and what was drawn then must not count.
    seeding.restore_globals(state["chance"])
    model.action_space.np_random.bit_generator.state = seeding.restore(state["action_chance"]).bit_generator.state


def _parts(model: Any) -> dict[str, Any]:
    """What Stable-Baselines3 would save of the learner, by name: modules and optimisers."""
    return {name: attrgetter(name)(model) for name in model._get_torch_save_params()[0]}


def _modules(model: Any) -> dict[str, torch.nn.Module]:
    return {name: part for name, part in _parts(model).items() if isinstance(part, torch.nn.Module)}


def _optimizers(model: Any) -> dict[str, torch.optim.Optimizer]:
    return {name: part for name, part in _parts(model).items() if isinstance(part, torch.optim.Optimizer)}


def _variables(model: Any) -> dict[str, torch.Tensor]:
    return {name: attrgetter(name)(model) for name in model._get_torch_save_params()[1]}


def _replayed(buffer: Any) -> list[str]:
    return [name for name in REPLAYED if hasattr(buffer, name)]


def _retrace(env: Any, tensors: Arrays, beginnings: list[dict[str, Any]]) -> NDArray[Any]:
    found = [
        env.env_method("retrace", beginning, tensors[f"env.{index}.actions"], indices=index)[0]
        for index, beginning in enumerate(beginnings)
    ]
    observations = np.stack(found).astype(tensors["last.observations"].dtype)
    if not np.array_equal(observations, tensors["last.observations"]):
        raise CheckpointError(
            "the environment came back to another observation than the one saved; the clip, the encoder's build or the "
            "state changed since: go on with what the run was started with, or train anew"
        )
    return observations


def figures(values: Any) -> dict[str, float]:
    """The numbers among named values, as JSON holds them."""
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float | np.number)}


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{index}.{name}": torch.as_tensor(value)
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }


def _restore_moments(optimizer: torch.optim.Optimizer, saved: dict[str, torch.Tensor]) -> None:
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in saved.items():
        index, name = key.split(".")
        moments.setdefault(int(index), {})[name] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _tensors(arrays: Arrays, prefix: str) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
