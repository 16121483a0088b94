"""From settings to a BenchMARL experiment: plain mappings, as YAML files hold them, to BenchMARL's objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reelrl.act.marl import yaml_files
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

# Their critics see what one agent sees: a network like the actor's.
WITHOUT_CENTRAL_CRITIC = ("ippo", "isac", "iddpg", "iql", "vdn")
WITH_OBJECTIVE = ("mappo", "ippo")  # their actor's loss is one that a term can be added to


@dataclass(frozen=True, kw_only=True)
class ContrastiveTermSettings:
    """Cross-ego contrastive learning beside the policy; a weight of 0 is none."""

    weight: float = 0.0
    gap_steps: int = 4
    """Views of one match that are so many steps apart, or fewer, are no negatives: they show nearly the same."""
    proj_dim: int = 64
    hidden_dim: int = 128
    self_pairs: bool = False
    lr: float = 3e-3
    """Of the projector; the actor's encoder learns at the experiment's own."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < float("inf"):
            raise ConfigError(f"the contrastive weight is {self.weight}; give 0 or more, 1 if unsure")
        if self.gap_steps < 0:
            raise ConfigError(f"gap_steps is {self.gap_steps}; give 0 or more")


@dataclass(frozen=True, kw_only=True)
class DoomTraining:
    """What a training is made of; each part has the keys of its YAML file."""

    algorithm_name: str
    task: dict[str, Any]
    actor: dict[str, Any]
    critic: dict[str, Any]
    algorithm: dict[str, Any]
    experiment: dict[str, Any]
    contrastive: ContrastiveTermSettings = field(default_factory=ContrastiveTermSettings)


class Parts:
    """BenchMARL's objects for a training; an error names the part that is wrong.

    A frozen encoder that actor and critic share runs at collection, unless that is not wanted.
    """

    def __init__(self, settings: DoomTraining, *, encode_at_collection: bool = True) -> None:
        from reelrl.act.marl.benchmarl import register

        register()
        if settings.contrastive.weight:
            require_trainable_encoder(settings)
        shared = shared_frozen_encoder(settings) if encode_at_collection else None
        if shared is not None and settings.task.get("frozen_encoder") is None:
            settings = replace(settings, task={**settings.task, "frozen_encoder": shared})
        self.task = task(settings.task)
        self.algorithm = algorithm(settings.algorithm_name, settings.algorithm)
        self.actor = model(settings.actor, "actor")
        self.critic = model(settings.critic, "critic")
        self.experiment = experiment(settings.experiment)


def load(
    *,
    algorithm_name: str = "mappo",
    task: str | Path | None = None,
    actor: str | Path | None = None,
    critic: str | Path | None = None,
    algorithm: str | Path | None = None,
    experiment: str | Path | None = None,
) -> DoomTraining:
    """Settings from files; those that are not given are the ones that ship."""
    if critic is None and algorithm_name in WITHOUT_CENTRAL_CRITIC:
        critic = actor or yaml_files.ACTOR
    return DoomTraining(
        algorithm_name=algorithm_name,
        task=yaml_files.read(task or yaml_files.TASK),
        actor=yaml_files.read(actor or yaml_files.ACTOR),
        critic=yaml_files.read(critic or yaml_files.CRITIC),
        algorithm=yaml_files.read(algorithm) if algorithm else _usual(algorithm_name),
        experiment=yaml_files.read(experiment or yaml_files.EXPERIMENT),
    )


def require_trainable_encoder(settings: DoomTraining) -> None:
    """Refuse a contrastive term that has no loss to join, or nothing to teach."""
    from reelrl.act.video.encoder import read_encoder_settings

    if settings.algorithm_name not in WITH_OBJECTIVE:
        raise ConfigError(
            f"{settings.algorithm_name} has no loss that a contrastive term can join; "
            f"use {' or '.join(WITH_OBJECTIVE)}, or leave the contrastive weight at 0"
        )
    if settings.task.get("num_players") == 1:
        raise ConfigError(
            "a contrastive term compares teammates' views, and num_players is 1; "
            "play with two or more, or leave the contrastive weight at 0"
        )
    encoder = read_encoder_settings(settings.actor.get("video_encoder_cfg"))
    if encoder.freeze_backbone:
        raise ConfigError(
            f"the actor's encoder {encoder.model_type} is frozen (freeze_backbone): a contrastive term would teach its "
            "own projector only, which no player uses; unfreeze the encoder, or leave the contrastive weight at 0"
        )


def shared_frozen_encoder(settings: DoomTraining) -> dict[str, Any] | None:
    """The encoder that actor and critic both freeze, if it is the same one."""
    from reelrl.act.video.encoder import read_encoder_settings

    ours, theirs = (part.get("video_encoder_cfg") for part in (settings.actor, settings.critic))
    if ours is None or theirs is None:
        return None
    one, other = read_encoder_settings(ours), read_encoder_settings(theirs)
    return dict(ours) if one == other and one.freeze_backbone else None


def task(given: dict[str, Any]) -> Any:
    from reelrl.act.marl.benchmarl.task import DoomPettingZooTask
    from reelrl.act.marl.task_config import DoomTaskConfig

    yaml_files.require_keys(given, yaml_files.field_names(DoomTaskConfig), "task")
    member: Any = DoomPettingZooTask.DOOM_PZ
    return member.get_task(given)


def model(given: dict[str, Any], part: str) -> Any:
    from benchmarl.models import model_config_registry

    name = given.get("name")
    if name not in ("video_policy", "video_central_critic"):
        raise ConfigError(f"{part}: name is {name!r}; it is video_policy or video_central_critic")
    if part == "actor" and name != "video_policy":
        raise ConfigError(f"actor: name is {name!r}, which sees what all agents see; an actor is video_policy")
    cls = model_config_registry[name]
    return cls(**yaml_files.model_parameters(cls, name, given, part))


def algorithm(name: str, given: dict[str, Any]) -> Any:
    cls = _algorithm_class(name)
    if name == "qmix":
        raise ConfigError(
            "qmix mixes by a global state of numbers, and Doom's players have video only; use vdn or mappo"
        )
    yaml_files.require_keys(given, yaml_files.field_names(cls), f"algorithm {name}")
    return cls(**given)


def experiment(given: dict[str, Any]) -> Any:
    from benchmarl.experiment import ExperimentConfig

    yaml_files.require_keys(given, yaml_files.field_names(ExperimentConfig), "experiment")
    return ExperimentConfig(**given)


def _usual(name: str) -> dict[str, Any]:
    """Ours where we have one, else BenchMARL's own settings of an algorithm."""
    ours = yaml_files.ALGORITHM.with_stem(name)
    if ours.is_file():
        return yaml_files.read(ours)
    from pathlib import Path

    import benchmarl

    _algorithm_class(name)
    return yaml_files.read(Path(benchmarl.__file__).parent / "conf" / "algorithm" / f"{name}.yaml")


def _algorithm_class(name: str) -> Any:
    from reelrl.act.marl.benchmarl import algorithms

    known = algorithms()
    if name not in known:
        raise ConfigError(f"unknown algorithm {name!r}{did_you_mean(name, known)}")
    return known[name]
