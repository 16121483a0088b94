"""The critic: sees what all agents see, and says what each of them may hope for.

z_i = encoder(video of agent i)     g = z_1 … z_n side by side, or their mean     V_i = head([z_i; g; aux_i])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from reelrl.act.marl.benchmarl.models import VideoReader, check_head, head
from reelrl.act.marl.yaml_files import model_yaml
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensordict import TensorDictBase

from benchmarl.models.common import Model, ModelConfig
from torch import nn

FUSIONS = ("concat", "mean")


class VideoCentralCriticModel(Model):  # type: ignore[misc]
    """Values from the embeddings of all agents; centralised.

    With common parameters BenchMARL wants one value for all: the mean over V_i.
    """

    def __init__(
        self,
        video_encoder_cfg: Any,
        video_key: str,
        aux_keys: Sequence[str] | None,
        head_hidden_sizes: Sequence[int],
        activation_class: type[nn.Module],
        dropout: float,
        layer_norm: bool,
        fusion: str,
        return_temporal_features: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.head_hidden_sizes, self.activation_class = list(head_hidden_sizes), activation_class
        self.dropout, self.layer_norm, self.fusion = dropout, layer_norm, fusion
        check_head(self)
        if fusion not in FUSIONS:
            raise ConfigError(f"fusion is {fusion!r}{did_you_mean(str(fusion), FUSIONS)}")
        # Called so in checkpoints, whose names stay.
        self.eyes = VideoReader(self, video_encoder_cfg, video_key, aux_keys, return_temporal_features)
        self.in_keys = self.eyes.in_keys
        together = self.eyes.width * (self.n_agents if fusion == "concat" else 1)
        inputs, outputs = self.eyes.width + together + self.eyes.aux_width, self.output_leaf_spec.shape[-1]
        self.heads = nn.ModuleList(
            head(inputs, self.head_hidden_sizes, outputs, self, last_gain=1.0)
            for _ in range(1 if self.share_params else self.n_agents)
        )

    def _perform_checks(self) -> None:
        super()._perform_checks()
        if not self.centralised:
            raise ConfigError("this critic sees what all agents see, and centralised is false; use it with MAPPO")
        if not self.input_has_agent_dim:
            raise ConfigError(
                "the critic's input has no agent dimension; it reads every agent's video, no global state"
            )

    def _forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        each, aux = self.eyes(tensordict)
        everything = each.flatten(-2) if self.fusion == "concat" else each.mean(-2)
        known = torch.cat([each, everything.unsqueeze(-2).expand(*each.shape[:-1], -1), aux], -1)
        if len(self.heads) == 1:
            return tensordict.set(self.out_key, self.heads[0](known).mean(-2))
        values = torch.stack([one(known[..., i, :]) for i, one in enumerate(self.heads)], -2)
        return tensordict.set(self.out_key, values)


@dataclass
class VideoCentralCriticModelConfig(ModelConfig):  # type: ignore[misc]
    """Settings of the critic; conf/model/layers/video_central_critic.yaml explains each."""

    video_encoder_cfg: Any
    video_key: str
    aux_keys: Any
    head_hidden_sizes: Any
    activation_class: type[nn.Module]
    dropout: float
    layer_norm: bool
    fusion: str
    return_temporal_features: bool

    @staticmethod
    def associated_class() -> type[VideoCentralCriticModel]:
        return VideoCentralCriticModel

    @classmethod
    def get_from_yaml(cls, path: str | None = None) -> VideoCentralCriticModelConfig:
        return cls(**model_yaml(cls, "video_central_critic", path))
