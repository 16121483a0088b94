"""A trained policy as one file: a small network in safetensors, what it decides in JSON. Loading runs no code.

    layers.0.weight (out, in)  layers.0.bias (out) ...      metadata "policy": activation, options, levels, low, high,
                                                            and the facts it was saved with

The last layer's outputs are, one choice after another, the scores of its options (`options`: how many each choice has),
or the values themselves, kept within `low` and `high` by cutting ("clip") or by bending ("tanh"). Acting needs numpy
only.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from reelrl.errors import CheckpointError, ConfigError, shown
from reelrl.runs import hub
from reelrl.runs.folder import RunFolder
from reelrl.storage import tensor_file
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

Activation = Literal["tanh", "relu"]
Bounded = Literal["clip", "tanh"]
Layer = tuple["NDArray[np.float32]", "NDArray[np.float32]"]

KINDS = ("best", "final", "interrupted")
"""What training leaves in a run's artifacts, the one to use first."""


@dataclass(frozen=True)
class Policy:
    """The greedy choice of a network.

    options    for discrete choices: how many options each has; scores are compared within a choice
    levels     what the options of a choice mean, where the environment wants numbers rather than their index
    low, high  for continuous choices: the range of each
    """

    layers: list[Layer] = field(repr=False)
    activation: Activation
    options: tuple[int, ...] = ()
    levels: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    bounded: Bounded = "clip"
    facts: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        outputs = sum(self.options) or len(self.low)
        if not self.layers or len(self.layers[-1][1]) != outputs or len(self.low) != len(self.high):
            raise CheckpointError(f"the last layer does not have the {outputs} outputs that the actions need")

    @property
    def inputs(self) -> int:
        """Length of the observations."""
        return int(self.layers[0][0].shape[1])

    @property
    def choices(self) -> int:
        """How many numbers an action has."""
        return len(self.options) or len(self.low)

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """The action, in the environment's own type: int64 for options, float32 for levels and values."""
        scores = self.scores(observation)
        if not self.options:
            return self.within(scores)
        best = self.best_options(scores)
        chosen: NDArray[Any] = np.asarray(self.levels, np.float32)[best] if self.levels else best
        return chosen

    def best_options(self, scores: NDArray[Any]) -> NDArray[np.int64]:
        """Which option of each choice scores most."""
        if len(set(self.options)) == 1:
            best: NDArray[np.int64] = scores.reshape(len(self.options), -1).argmax(axis=1)
            return best
        return np.array([part.argmax() for part in np.split(scores, np.cumsum(self.options)[:-1])])

    def within(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values in the range of each choice."""
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        if self.bounded == "tanh":
            values = low + (np.tanh(values) + 1) / 2 * (high - low)
        return np.clip(values, low, high)

    def scores(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        """What the last layer gives."""
        values = np.asarray(observation, np.float32).ravel()
        if len(values) != self.inputs:
            raise ConfigError(
                f"the observation has {len(values)} numbers, this policy was trained on {self.inputs}; "
                "use it on clips of the size and with the state that it was trained with"
            )
        for weight, bias in self.layers[:-1]:
            values = weight @ values + bias
            values = np.tanh(values) if self.activation == "tanh" else np.maximum(values, 0)
        weight, bias = self.layers[-1]
        return weight @ values + bias

    def save(self, path: str | Path) -> None:
        tensors: dict[str, NDArray[Any]] = {}
        for index, (weight, bias) in enumerate(self.layers):
            tensors |= {f"layers.{index}.weight": weight, f"layers.{index}.bias": bias}
        names = ("activation", "options", "levels", "low", "high", "bounded", "facts")
        shape = json.dumps({name: getattr(self, name) for name in names})
        write_atomic(path, tensor_file.to_bytes(tensors, {"policy": shape}))


def load(path: str | Path) -> Policy:
    """The policy in a file."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "np") as file:
            shape = parse_object((file.metadata() or {})["policy"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        bounded = shape.get("bounded", "clip")  # files of before it was a choice
        for word, known in ((shape["activation"], Activation), (bounded, Bounded)):
            if word not in get_args(known):
                raise ValueError(f"{word!r} is none of {', '.join(get_args(known))}")
        layers = [
            (tensors[f"layers.{i}.weight"].astype(np.float32), tensors[f"layers.{i}.bias"].astype(np.float32))
            for i in range(len(tensors) // 2)
        ]
        ranges = {name: tuple(shape[name]) for name in ("options", "levels", "low", "high")}
        if not isinstance(shape["facts"], dict):
            raise ValueError(f"its facts are {shown(shape['facts'])}")
        _check_ranges(**ranges)
        _check_layers(layers)
        return Policy(layers, shape["activation"], **ranges, bounded=bounded, facts=shape["facts"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, IndexError, CheckpointError) as error:
        raise CheckpointError(f"{path} holds no policy ({error}); give one that `reel train` saved") from error


def number_of(facts: dict[str, Any], name: str, path: Path) -> float:
    """A number that a policy's facts must hold."""
    value: Any = facts.get(name)
    if not _is_finite(value):
        raise CheckpointError(f"{path} has {name} = {shown(value)}, where a finite number is wanted; train it anew")
    return float(value)


def check_finite(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError for weights with which every decision would be the same, or none at all."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = array[~np.isfinite(array)].ravel()
            raise ValueError(f"{name} holds {bad[0]} ({bad.size} of {array.size} numbers are not finite)")


def _check_ranges(
    options: tuple[Any, ...], levels: tuple[Any, ...], low: tuple[Any, ...], high: tuple[Any, ...]
) -> None:
    if any(type(each) is not int or each < 1 for each in options):
        raise ValueError(f"options are {shown(options)}, not whole numbers above 0")
    for name, numbers in (("levels", levels), ("low", low), ("high", high)):
        if not all(map(_is_finite, numbers)):
            raise ValueError(f"{name} is {shown(numbers)}, not finite numbers")
    if levels and any(each > len(levels) for each in options):
        raise ValueError(f"{max(options)} options have {len(levels)} levels")


def _check_layers(layers: list[Layer]) -> None:
    inputs = None
    for number, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or inputs not in (None, weight.shape[1]):
            raise ValueError(f"layer {number} has weights {weight.shape} and bias {bias.shape}, which do not fit")
        check_finite({f"layers.{number}.weight": weight, f"layers.{number}.bias": bias})
        inputs = weight.shape[0]


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def model_name(kind: str, algorithm: str) -> str:
    """The file's name: "final_ppo_model.safetensors"."""
    return f"{kind}_{algorithm}_model.safetensors"


def find(place: str | Path) -> Path:
    """The policy file that a path means: itself, the best one of a run, or that of "hub:user/name"."""
    place = hub.on_this_machine(place)
    if place.suffix == ".safetensors":
        return place
    run = RunFolder(place)
    for kind in KINDS:
        policies = sorted(run.artifacts.glob(model_name(kind, "*")))
        if policies:
            return run.artifact(policies[0].name)
    raise CheckpointError(f"{run.folder} has no trained policy yet; finish it: reel train {run.stage} --resume {place}")
