"""A Stable-Baselines3 learner in our checkpoints: everything that decides what happens next, and no pickles.

    env = vectorise([make_env()])
    model = PPO(BatchedPolicy, env, seed=0)
    tensors, state = export(model)         # between two rollouts
    restore(model, tensors, state)         # in another process: goes on to the same bits

Encoders and simulators cannot be saved in the middle of an episode. The wrapper of `training` remembers the random
generator at its start and the actions since, and plays them again: the same environment answers with the same bytes.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any

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
    retraced = [
        env.env_method("retrace", beginning, tensors[f"env.{index}.actions"], indices=index)[0]
        for index, beginning in enumerate(beginnings)
    ]
    observations = np.stack(retraced).astype(tensors["last.observations"].dtype)
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
