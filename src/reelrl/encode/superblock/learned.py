"""Trained agents as controllers of superblock maps, loaded from the run folder without running its code.

controller = load_map_controller("runs/0007")          # or a name, a .safetensors or .yaml file, "my_pkg.mine:Policy"
env = SuperblockQpEnv(clip, **controller.env_options)
observation, _ = env.reset(seed=0)
controller.reset(0, env)
env.step(controller.act(observation))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.superblock.map_policy import FittedMap
from reelrl.encode.superblock.maps import action_of, map_inputs, map_of
from reelrl.encode.superblock.over_time import TIME
from reelrl.encode.superblock.states import Normalisation
from reelrl.errors import CheckpointError, ConfigError
from reelrl.names import MAP_CONTROLLERS, STATES, known, make_controller, names_a_file
from reelrl.runs import policy_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.superblock.maps import MapEpisode


class LearnedMap:
    """The greedy map of a policy that `reel train superblock` saved; `env_options` is what it expects to see."""

    privileged = False

    def __init__(self, place: str | Path) -> None:
        self.path = policy_file.find(place)
        self.policy = policy_file.load(self.path)
        self.facts = self.policy.facts
        try:
            known(STATES, self.facts.get("state") or "naive")
            self._normalisation = _normalisation_of(self.facts)
        except (ConfigError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.path} cannot be shown what it wants to see: {error}") from error
        self._inputs: NDArray[np.float32] | None = None
        self._frame = 0

    @property
    def env_options(self) -> dict[str, Any]:
        """Arguments of `SuperblockQpEnv` that decide what is observed: with the normalisation of the training clips."""
        options = {name: self.facts[name] for name in ("state", "weights") if self.facts.get(name) is not None}
        if self.over_time:
            options |= {"action": self.facts["action"], "reward": "equal_rate"}
        return options | {"normalise": self._normalisation}

    @property
    def over_time(self) -> bool:
        """It also moves whole frames."""
        return str(self.facts.get("action")).endswith(TIME)

    def reset(self, seed: int, episode: MapEpisode) -> None:  # noqa: ARG002 - the protocol's
        """Check that the clip has the size the policy was trained for; policies over features take any."""
        superblocks = episode.grid[0] * episode.grid[1]
        self._frame = 0
        if self.facts.get("action") == "features+time":
            return
        if self.facts.get("action") == "features":
            self._inputs = map_inputs(episode.features, episode.grid, episode.weights)
        elif self.policy.choices != superblocks + self.over_time:
            raise ConfigError(
                f"{self.path.name} decides for {self.policy.choices} superblocks and this clip has {superblocks}; "
                "train on clips of this size, or with --action features"
            )

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """The map of the next frame, as the environment's "map" action: 0 stands for -3; over time its own action."""
        chosen = self.policy.act(observation)
        if self.facts.get("action") == "features+time":
            return chosen
        if self._inputs is None:
            return chosen.astype(np.int64)
        offsets = map_of(self._inputs[self._frame], chosen)
        self._frame += 1
        return action_of(offsets)


def normalisation_facts(normalisation: Normalisation | None) -> dict[str, Any]:
    """How a policy file keeps what its observations are normalised with."""
    if normalisation is None:
        return {"normalisation": None}
    return {"normalisation": {name: getattr(normalisation, name).tolist() for name in ("mean", "deviation")}}


def _normalisation_of(facts: dict[str, Any]) -> Normalisation | bool:
    saved = facts.get("normalisation")
    if saved is None:
        return False
    mean, deviation = (np.array(saved[name], np.float32) for name in ("mean", "deviation"))
    if mean.ndim != 1 or mean.shape != deviation.shape or not np.isfinite([mean, deviation]).all():
        raise ValueError(f"its normalisation has shapes {mean.shape} and {deviation.shape}, or is not finite")
    return Normalisation(mean, deviation)


def load_map_controller(name: str) -> Any:
    """A controller of maps by name, by run folder or policy file, or as "package.module:Class".

    Arguments may follow in brackets: "variance-map(0.5)".
    """
    if name.endswith(".yaml"):
        return FittedMap(name)
    if names_a_file(MAP_CONTROLLERS, name):
        return LearnedMap(name)
    return make_controller(MAP_CONTROLLERS, name, foreign=True)
