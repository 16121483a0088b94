"""The YAML files of training: which ship with us, and how they are read. The keys are exactly those of a dataclass.

conf/task/doom_pettingzoo/doom_pz.yaml     conf/model/layers/video_policy.yaml, video_central_critic.yaml
conf/algorithm/mappo.yaml                  conf/experiment/doom.yaml

BenchMARL's own conventions hold here: a file lists every parameter, classes by their dotted names.
"""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError
from reelrl.names import did_you_mean
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CONF = Path(__file__).parent / "conf"
TASK = CONF / "task" / "doom_pettingzoo" / "doom_pz.yaml"
ACTOR = CONF / "model" / "layers" / "video_policy.yaml"
TAUGHT_ACTOR = ACTOR.with_stem("video_policy_taught")  # with Tanh the same lessons teach nothing
CRITIC = CONF / "model" / "layers" / "video_central_critic.yaml"
ALGORITHM = CONF / "algorithm" / "mappo.yaml"
EXPERIMENT = CONF / "experiment" / "doom.yaml"
# What people call them, and the names under which `reel init doom` writes them.
SHIPPED = {"task": TASK, "actor": ACTOR, "critic": CRITIC, "algorithm": ALGORITHM, "experiment": EXPERIMENT}


def read(path: str | Path) -> dict[str, Any]:
    """What a file holds, without the lines that are for hydra alone."""
    content = config.read_yaml(path)
    content.pop("defaults", None)
    return content


def field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def key_problems(given: Mapping[str, Any], wanted: Collection[str]) -> list[str]:
    """Every key that is unknown or missing, each in a sentence."""
    unknown = [f"unknown key {key!r}{did_you_mean(str(key), wanted)}" for key in given if key not in wanted]
    return unknown + [f"key {key!r} is missing" for key in wanted if key not in given]


def require_keys(given: Mapping[str, Any], wanted: Collection[str], where: object) -> None:
    problems = key_problems(given, wanted)
    if problems:
        raise ConfigError(f"{where}: {'; '.join(problems)}")


def model_yaml(cls: type, name: str, path: str | Path | None) -> dict[str, Any]:
    """The parameters of a model in a file of that name, or in ours."""
    where = Path(path or CONF / "model" / "layers" / f"{name}.yaml")
    return model_parameters(cls, name, read(where), where)


def model_parameters(cls: type, name: str, given: Mapping[str, Any], where: object) -> dict[str, Any]:
    require_keys(given, ["name", *field_names(cls)], where)
    if given["name"] != name:
        raise ConfigError(f"{where}: name is {given['name']!r}, and {name!r} is wanted here")
    values = {key: value for key, value in given.items() if key != "name"}
    return {key: _class(value, key, where) if key.endswith("class") else value for key, value in values.items()}


def _class(dotted: Any, key: str, where: object) -> Any:
    """An activation of torch.nn; a class from elsewhere was typed, or its file is trusted."""
    from torch.nn.modules import activation

    module, _, name = str(dotted).rpartition(".")
    if module == "torch.nn" and name not in activation.__all__:
        raise ConfigError(f"{where}: {key} is {dotted!r}{did_you_mean(name, activation.__all__)}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ConfigError(f"{where}: {key} is {dotted!r}, which cannot be imported; write torch.nn.Tanh") from error
