"""From settings to BenchMARL's objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import benchmarl
from benchmarl.algorithms import algorithm_config_registry
from benchmarl.experiment import ExperimentConfig
from benchmarl.models import model_config_registry

from reelrl.act.marl import yaml_files
from reelrl.act.marl.benchmarl import register
from reelrl.act.marl.benchmarl.task import DoomPettingZooTask
from reelrl.act.marl.settings import (
    require_actor,
    require_pupil,
    require_self_play,
    require_trainable_encoder,
    shared_frozen_encoder,
)
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from reelrl.act.marl.settings import DoomTraining


class Parts:
    """BenchMARL's objects for a training; an error names the part that is wrong.

    A frozen encoder that actor and critic share runs at collection, unless that is not wanted.
    """

    def __init__(self, settings: DoomTraining, *, encode_at_collection: bool = True) -> None:
        register()
        if settings.contrastive.weight:
            require_trainable_encoder(settings)
        if settings.imitation.steps:
            require_pupil(settings)
        if settings.collection.spread:
            require_actor(settings)
        if settings.task.get("sides", 1) == 2:
            require_self_play(settings)
        shared = shared_frozen_encoder(settings) if encode_at_collection else None
        if shared is not None and settings.task.get("frozen_encoder") is None:
            settings = replace(settings, task={**settings.task, "frozen_encoder": shared})
        self.task = make_task(settings.task)
        self.algorithm = make_algorithm(settings.algorithm_name, settings.algorithm)
        self.actor = make_model(settings.actor, "actor")
        self.critic = make_model(settings.critic, "critic")
        self.experiment = make_experiment(settings.experiment)


def make_task(given: dict[str, Any]) -> Any:
    given = {"sides": 1, **given}  # runs and files from before there were two
    yaml_files.require_keys(given, yaml_files.field_names(DoomTaskConfig), "task")
    member: Any = DoomPettingZooTask.DOOM_PZ
    return member.get_task(given)


def make_model(given: dict[str, Any], part: str) -> Any:
    name = given.get("name")
    if name not in ("video_policy", "video_central_critic"):
        raise ConfigError(f"{part}: name is {name!r}; it is video_policy or video_central_critic")
    if part == "actor" and name != "video_policy":
        raise ConfigError(f"actor: name is {name!r}, which sees what all agents see; an actor is video_policy")
    cls = model_config_registry[name]
    return cls(**yaml_files.model_parameters(cls, name, given, part))


def make_algorithm(name: str, given: dict[str, Any]) -> Any:
    cls = _algorithm_class(name)
    if name == "qmix":
        raise ConfigError(
            "qmix mixes by a global state of numbers, and Doom's players have video only; use vdn or mappo"
        )
    yaml_files.require_keys(given, yaml_files.field_names(cls), f"algorithm {name}")
    return cls(**given)


def make_experiment(given: dict[str, Any]) -> Any:
    yaml_files.require_keys(given, yaml_files.field_names(ExperimentConfig), "experiment")
    return ExperimentConfig(**given)


def algorithm_file(name: str) -> Path:
    """BenchMARL's own settings of an algorithm."""
    _algorithm_class(name)
    return Path(benchmarl.__file__).parent / "conf" / "algorithm" / f"{name}.yaml"


def _algorithm_class(name: str) -> Any:
    if name not in algorithm_config_registry:
        raise ConfigError(f"unknown algorithm {name!r}{did_you_mean(name, algorithm_config_registry)}")
    return algorithm_config_registry[name]
