"""Settings of a training: plain mappings, as YAML files hold them. Needs neither torch nor BenchMARL to be read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.marl import yaml_files
from reelrl.errors import ConfigError

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
class CollectionSettings:
    """How steps are collected: beside the learner, or strictly by the newest policy."""

    beside: bool = True
    """Engines play the next batch while the learner learns from the last one, so that a batch is played by the policy
    before the last update. False waits for the learner: every batch by the newest policy. For PPO; algorithms with a
    memory of old steps always wait."""
    groups: int = 2
    """Matches take turns in so many groups: the engines of one run while another gets its actions."""
    spread: bool = False
    """Every match is a task, played where --workers and --ray say, each episode in engines of its own: the same steps
    from everywhere, with up to two players. For PPO."""

    def __post_init__(self) -> None:
        if self.groups < 1:
            raise ConfigError(f"collection.groups is {self.groups}; give 1 or more, 2 if unsure")


@dataclass(frozen=True, kw_only=True)
class ImitationSettings:
    """A teacher at the beginning: a rule that is told what is on the screen. For PPO with an actor that sees video."""

    steps: int = 0
    """So many steps of a match are taught; 0 is no teacher."""
    lr: float = 5e-4
    memory_steps: int = 60_000
    """Steps that are learned from, the newest ones: pictures of two players in 48x64 take 18 kB a step."""
    shown: float = 0.25
    """In this share of the taught steps the teacher plays some of the matches itself: all at first, then ever fewer."""

    def __post_init__(self) -> None:
        if self.steps < 0 or not self.lr > 0:
            raise ConfigError(f"imitation has steps {self.steps} and lr {self.lr}; give 0 or more, and more than 0")
        if self.memory_steps < 1 or not 0 <= self.shown <= 1:
            raise ConfigError(
                f"imitation has memory_steps {self.memory_steps} and shown {self.shown}; give 1 or more, and 0 to 1"
            )

    def shown_share(self, step: int) -> float:
        """Of the matches of a batch that begins at a step."""
        until = self.shown * self.steps
        return max(0.0, 1 - step / until) if until else 0.0


@dataclass(frozen=True, kw_only=True)
class SelfPlaySettings:
    """Who plays side B where there are two: a copy of the actor as it was."""

    renew: int = 10
    """So many batches long it stays the same; then the newest actor is copied."""

    def __post_init__(self) -> None:
        if self.renew < 1:
            raise ConfigError(f"self_play.renew is {self.renew}; give 1 or more batches, 10 if unsure")


STRICT = CollectionSettings(beside=False, groups=1)


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
    collection: CollectionSettings = field(default_factory=CollectionSettings)
    imitation: ImitationSettings = field(default_factory=ImitationSettings)
    self_play: SelfPlaySettings = field(default_factory=SelfPlaySettings)


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
        algorithm=yaml_files.read(algorithm or _algorithm_file(algorithm_name)),
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
    if settings.task.get("num_players") == settings.task.get("sides", 1):
        raise ConfigError(
            f"a contrastive term compares teammates' views, and num_players is {settings.task['num_players']}; "
            "play with two or more to a side, or leave the contrastive weight at 0"
        )
    encoder = read_encoder_settings(settings.actor.get("video_encoder_cfg"))
    if encoder.freeze_backbone:
        raise ConfigError(
            f"the actor's encoder {encoder.model_type} is frozen (freeze_backbone): a contrastive term would teach its "
            "own projector only, which no player uses; unfreeze the encoder, or leave the contrastive weight at 0"
        )


def require_pupil(settings: DoomTraining) -> None:
    """Refuse a teacher for an algorithm whose actor has no scores of actions."""
    if settings.algorithm_name not in WITH_OBJECTIVE:
        raise ConfigError(
            f"{settings.algorithm_name} has no actor that a teacher can teach; "
            f"use {' or '.join(WITH_OBJECTIVE)}, or leave imitation.steps at 0"
        )


def require_actor(settings: DoomTraining) -> None:
    """Refuse matches as tasks for an algorithm whose exploration is the learner's own."""
    if settings.algorithm_name not in WITH_OBJECTIVE:
        raise ConfigError(
            f"{settings.algorithm_name} explores in the learner's process; with matches as tasks (--spread, --workers, "
            f"--ray) use {' or '.join(WITH_OBJECTIVE)}"
        )


def require_self_play(settings: DoomTraining) -> None:
    """Refuse two sides where nobody could play the other one, or where they could not start."""
    scenario.require(settings.task["config_path"], 2)
    if settings.algorithm_name not in WITH_OBJECTIVE:
        raise ConfigError(
            f"{settings.algorithm_name} has no actor whose copy could play side B; "
            f"use {' or '.join(WITH_OBJECTIVE)}, or set task.sides to 1"
        )
    if settings.collection.spread:
        raise ConfigError(
            "matches of two sides are no tasks: a task does not take the copy along that plays side B; "
            "leave --spread, --workers and --ray out"
        )


def shared_frozen_encoder(settings: DoomTraining) -> dict[str, Any] | None:
    """The encoder that actor and critic both freeze, if it is the same one."""
    from reelrl.act.video.encoder import read_encoder_settings

    ours, theirs = (part.get("video_encoder_cfg") for part in (settings.actor, settings.critic))
    if ours is None or theirs is None:
        return None
    one, other = read_encoder_settings(ours), read_encoder_settings(theirs)
    return dict(ours) if one == other and one.freeze_backbone else None


def with_steps(settings: DoomTraining, steps: int) -> DoomTraining:
    """The settings with another length."""
    return replace(settings, experiment={**settings.experiment, "max_n_frames": steps, "max_n_iters": None})


def on_cpu(settings: DoomTraining) -> DoomTraining:
    """The settings for a machine without a GPU: a team that was trained on one can play anywhere."""
    devices = dict.fromkeys(("sampling_device", "train_device", "buffer_device"), "cpu")
    return replace(settings, experiment={**settings.experiment, **devices})


def with_scenario(settings: DoomTraining, name: str) -> DoomTraining:
    """The settings in another scenario, with the rewards and sides that are meant for it, if it has any."""
    ours = scenario.OURS.get(name)
    sides = getattr(ours, "SIDES", settings.task.get("sides", 1))
    scenario.require(name, sides)
    rewards = getattr(ours, "REWARDS", None)
    changes = {"config_path": name, "sides": sides} | ({} if rewards is None else {"rewards": asdict(rewards)})
    return replace(settings, task={**settings.task, **changes})


def with_contrastive_weight(settings: DoomTraining, weight: float) -> DoomTraining:
    """The settings with another weight of the cross-ego term."""
    return replace(settings, contrastive=replace(settings.contrastive, weight=weight))


def _algorithm_file(name: str) -> Path:
    """Ours where we have one, else BenchMARL's own."""
    ours = yaml_files.ALGORITHM.with_stem(name)
    if ours.is_file():
        return ours
    from reelrl.act.marl.benchmarl.parts import algorithm_file

    return algorithm_file(name)
