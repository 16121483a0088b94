"""Settings of the task: a match, and how a learner meets it. Needs neither torch nor BenchMARL."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from reelrl.act.doom.env import VizDoomCoopParallelEnv
from reelrl.act.doom.settings import VZCoopConfig
from reelrl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DoomTaskConfig(VZCoopConfig):
    """The keys of conf/task/doom_pettingzoo/doom_pz.yaml."""

    frame_stack: int = 1
    max_steps: int = 375
    aux_observations: tuple[str, ...] = ()
    wrapper_kwargs: dict[str, Any] = field(default_factory=dict)
    """Passed on to torchrl's PettingZooWrapper."""
    frozen_encoder: dict[str, Any] | None = None
    """A `video_encoder_cfg` to encode with at collection. `reel train doom` fills it in where actor and critic freeze
    the same encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("frame_stack", "max_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give a whole number, 1 or more")

    def match_config(self) -> VZCoopConfig:
        """The match alone."""
        return VZCoopConfig(**{each.name: getattr(self, each.name) for each in fields(VZCoopConfig)})

    def make_env(self, *, sightings: bool = False) -> VizDoomCoopParallelEnv:
        """The match as an environment; engines start with its first reset."""
        return VizDoomCoopParallelEnv(
            self.match_config(),
            self.frame_stack,
            self.max_steps,
            aux_observations=self.aux_observations,
            sightings=sightings,
        )
