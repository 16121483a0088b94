"""Settings of the location net; those of the contrastive term within them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from reelrl.act.location.model.fuser import Fusion
from reelrl.act.location.readings import readings_of
from reelrl.act.video.encoder import VideoEncoderSettings
from reelrl.errors import ConfigError

Activation = Literal["gelu", "relu", "silu", "tanh"]


@dataclass(frozen=True, kw_only=True)
class ContrastiveSettings:
    """Cross-ego contrastive learning, as `CrossEgoContrastive` has it."""

    enable: bool = True
    """Off: embeddings are not brought to length 1 either. For the same net without the term, set loss_weight to 0."""
    loss_weight: float = 1.0
    init_logit_scale: float = 10.0
    init_logit_bias: float = -3.0
    learnable_temp: bool = True
    turn_off_bias: bool = False
    self_pairs: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.loss_weight) and self.loss_weight >= 0):
            raise ConfigError(f"loss_weight is {self.loss_weight}; give 0 or more")


@dataclass(frozen=True, kw_only=True)
class LocationNetSettings:
    """A net reads precomputed embeddings (`embed_dim`) or video (`video_encoder` and `clip`), one of the two."""

    num_places: int
    embed_dim: int | None = None
    """Width of the precomputed embeddings of the views."""
    video_encoder: VideoEncoderSettings | None = None
    clip: tuple[int, int, int, int] | None = None
    """T, C, H and W of the video that the encoder sees."""
    players: int | None = None
    enemies: int | None = None
    """How many of each the frame reader tells apart, whose readings the embeddings are, one place after the other; the
    net then has a memory and reads a history of them. None: embeddings of any kind."""
    memory_dim: int = 24
    """Numbers that are remembered of each body at each place."""
    proj_dim: int = 128
    fusion: Fusion = "mean"
    fused_agent_dim: int = 128
    team_embed_dim: int = 16
    """Of the side a team plays for, of two; 0: the net is not told. (A memory hears it in its own width.)"""
    hidden_dim: int = 256
    num_hidden_layers: int = 1
    activation: Activation = "gelu"
    dropout: float = 0.1
    num_agents: int = 4
    """Seats of a team, of which `concat` must know."""
    num_pov_agents: int | None = None
    """How many of the agents, drawn anew for every moment, the net may see in training; None: all."""
    contrastive: ContrastiveSettings = field(default_factory=ContrastiveSettings)

    def __post_init__(self) -> None:
        if (self.embed_dim is None) == (self.video_encoder is None):
            both = "neither is" if self.embed_dim is None else "both are"
            raise ConfigError(f"a net reads either embeddings (embed_dim) or video (video_encoder); {both} set")
        if (self.video_encoder is None) != (self.clip is None):
            raise ConfigError(f"video_encoder and clip belong together; clip is {self.clip}, as (T, C, H, W)")
        if (self.players is None) != (self.enemies is None):
            raise ConfigError(f"players and enemies belong together; they are {self.players} and {self.enemies}")
        widths = ("embed_dim", "memory_dim", "proj_dim", "fused_agent_dim", "hidden_dim")
        sizes = ("num_places", "players", "enemies", *widths, "num_agents", "num_pov_agents")
        for name in sizes:
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("team_embed_dim", "num_hidden_layers"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 or more")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it is a share from 0 to below 1")
        if self.bodies is not None:
            self._check_memory(self.bodies)

    @property
    def bodies(self) -> int | None:
        """That are remembered one by one; None: there is no memory."""
        return None if self.players is None or self.enemies is None else self.players + self.enemies

    def _check_memory(self, bodies: int) -> None:
        wanted = self.num_places * readings_of(bodies)
        if self.embed_dim != wanted:
            raise ConfigError(
                f"embed_dim is {self.embed_dim}, and readings of {bodies} bodies at {self.num_places} places are "
                f"{wanted} numbers; they must be the same"
            )
        if (self.players or 0) < self.num_agents:
            raise ConfigError(f"players is {self.players}, and num_agents {self.num_agents}; every agent is a player")
        if self.memory_dim % 4 or self.hidden_dim % 4:
            raise ConfigError(f"memory_dim = {self.memory_dim} and hidden_dim = {self.hidden_dim} must divide by 4")
