"""Settings of the location net; those of the contrastive term within them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from reelrl.act.location.fuser import Fusion
from reelrl.act.video_encoder import VideoEncoderSettings
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
    place_features: int | None = None
    """Numbers that the embeddings hold of each place, one place after the other, as eyes give them; the net then has a
    memory and reads a history of them. None: embeddings of any kind."""
    memory_dim: int = 48
    """Numbers that are remembered of each place."""
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
        if self.place_features is not None and self.embed_dim != self.num_places * self.place_features:
            raise ConfigError(
                f"embed_dim is {self.embed_dim}, and {self.num_places} places with place_features = "
                f"{self.place_features} make {self.num_places * self.place_features}; they must be the same"
            )
        if self.place_features is not None and (self.memory_dim % 4 or self.hidden_dim % 4):
            raise ConfigError(f"memory_dim = {self.memory_dim} and hidden_dim = {self.hidden_dim} must divide by 4")
        widths = ("embed_dim", "place_features", "memory_dim", "proj_dim", "fused_agent_dim", "hidden_dim")
        sizes = ("num_places", *widths, "num_agents", "num_pov_agents")
        for name in sizes:
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("team_embed_dim", "num_hidden_layers"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 or more")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it is a share from 0 to below 1")
