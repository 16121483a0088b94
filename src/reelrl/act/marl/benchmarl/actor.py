"""The actor: each agent sees its own video, and nothing else, and scores its actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from reelrl.act.marl.benchmarl.models import VideoReader, check_head, head
from reelrl.act.marl.yaml_files import model_yaml
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensordict import TensorDictBase

from benchmarl.models.common import Model, ModelConfig
from torch import nn


class VideoPolicyModel(Model):  # type: ignore[misc]
    """Video encoder, then a head per agent; decentralised."""

    def __init__(
        self,
        video_encoder_cfg: Any,
        video_key: str,
        aux_keys: Sequence[str] | None,
        head_hidden_sizes: Sequence[int],
        activation_class: type[nn.Module],
        dropout: float,
        layer_norm: bool,
        return_temporal_features: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.head_hidden_sizes, self.activation_class = list(head_hidden_sizes), activation_class
        self.dropout, self.layer_norm = dropout, layer_norm
        check_head(self)
        # Called so in checkpoints, whose names stay.
        self.eyes = VideoReader(self, video_encoder_cfg, video_key, aux_keys, return_temporal_features)
        self.in_keys = self.eyes.in_keys
        inputs, outputs = self.eyes.width + self.eyes.aux_width, self.output_leaf_spec.shape[-1]
        self.heads = nn.ModuleList(
            # Small first scores: all actions begin nearly equally likely.
            head(inputs, self.head_hidden_sizes, outputs, self, last_gain=0.01)
            for _ in range(1 if self.share_params else self.n_agents)
        )

    def _perform_checks(self) -> None:
        super()._perform_checks()
        if self.centralised:
            raise ConfigError("an actor sees its own video only, and centralised is true; use it as the policy")
        if not self.input_has_agent_dim:
            raise ConfigError("the actor's input has no agent dimension; each agent needs a video of its own")

    def _forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        embedding, aux = self.eyes(tensordict)
        known = torch.cat([embedding, aux], -1)
        if len(self.heads) == 1:
            scores = self.heads[0](known)
        else:
            scores = torch.stack([one(known[..., i, :]) for i, one in enumerate(self.heads)], -2)
        return tensordict.set(self.out_key, scores)


@dataclass
class VideoPolicyModelConfig(ModelConfig):  # type: ignore[misc]
    """Settings of the actor; conf/model/layers/video_policy.yaml explains each."""

    video_encoder_cfg: Any
    video_key: str
    aux_keys: Any
    head_hidden_sizes: Any
    activation_class: type[nn.Module]
    dropout: float
    layer_norm: bool
    return_temporal_features: bool

    @staticmethod
    def associated_class() -> type[VideoPolicyModel]:
        return VideoPolicyModel

    @classmethod
    def get_from_yaml(cls, path: str | None = None) -> VideoPolicyModelConfig:
        return cls(**model_yaml(cls, "video_policy", path))
