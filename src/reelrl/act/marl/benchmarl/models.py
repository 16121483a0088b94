"""Actor and critic: a video encoder, then a head of plain layers.

actor    scores_i = head([z_i; aux_i]), where z_i = encoder(video of agent i): it sees its own video and nothing else
critic   V_i = head([z_i; g; aux_i]), where g = z_1 … z_n side by side, or their mean: it sees what all agents see
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from benchmarl.models.common import Model, ModelConfig
from torch import Tensor, nn

from reelrl.act.marl.benchmarl.frozen_encoder import EMBEDDING
from reelrl.act.marl.yaml_files import model_yaml
from reelrl.act.video.encoder import (
    ClipShape,
    VideoEncoder,
    encode_frozen,
    frozen_video_encoder,
    make_video_encoder,
    read_encoder_settings,
)
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensordict import TensorDictBase

Key = tuple[str, ...]
FUSIONS = ("concat", "mean")


class AgentVideoReader(nn.Module):
    """The embedding and the extra facts of every agent: [..., agents, `width`] and [..., agents, `aux_width`].

    A frozen encoder is not a part of this module: it has nothing to learn, save or copy. Where the environment has
    already encoded the video, none is needed.
    """

    def __init__(self, model: Any, video_encoder_cfg: Any, video_key: str, aux_keys: Any, temporal: bool) -> None:
        super().__init__()
        spec, group, agents = model.input_spec, model.agent_group, model.n_agents
        self.settings = read_encoder_settings(video_encoder_cfg)
        known: dict[str, Key] = {key[-1]: key for key in spec.keys(True, True) if key[0] == group}
        self.aux_keys = [_find(known, name, "aux_keys") for name in aux_keys or ()]
        self.aux_width = sum(_flat_width(spec[key].shape, agents, key) for key in self.aux_keys)
        self.encoders = nn.ModuleList()
        self._frozen: tuple[VideoEncoder, ...] = ()
        self.encoded = self.settings.freeze_backbone and EMBEDDING in known
        if self.encoded:
            self.key = known[EMBEDDING]
            rows, width = spec[self.key].shape[-2:]
        else:
            self.key = _find(known, video_key, "video_key")
            clip = clip_shape(spec[self.key], agents, self.key)
            if self.settings.freeze_backbone:
                self._frozen = (frozen_video_encoder(self.settings, clip, model.device),)
            else:
                # Agents without common parameters have encoders of their own.
                copies = 1 if model.share_params else agents
                self.encoders.extend(make_video_encoder(self.settings, clip, model.device) for _ in range(copies))
            one = next(iter((*self._frozen, *self.encoders)))
            rows, width = one.frames_out, one.embed_dim
        if temporal and rows == 1:
            raise ConfigError(
                f"return_temporal_features is true, and {self.settings.model_type} has one embedding for all frames; "
                "set it to false, or use an encoder that sees frame by frame and a frame_stack above 1"
            )
        self.temporal = temporal
        self.width = width * (rows if temporal else 1)

    @property
    def in_keys(self) -> list[Key]:
        return [self.key, *self.aux_keys]

    def forward(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        rows = self._rows(tensordict.get(self.key))
        embedding = rows.flatten(-2) if self.temporal else rows.mean(-2)
        aux = [tensordict.get(key).float().flatten(embedding.dim() - 1) for key in self.aux_keys]
        return embedding, torch.cat(aux, -1) if aux else embedding[..., :0]

    def _rows(self, seen: Tensor) -> Tensor:
        if self.encoded:
            return seen
        if self._frozen:
            return encode_frozen(self._frozen[0], seen)
        if len(self.encoders) == 1:
            return _encode(self.encoders[0], seen)
        return torch.stack([_encode(one, seen[..., i, :, :, :, :]) for i, one in enumerate(self.encoders)], -3)


class VideoModel(Model):  # type: ignore[misc]
    """What actor and critic share: what reads the videos, and a head for all agents or for each of them."""

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
        self._check_head()
        # Called so in checkpoints, whose names stay.
        self.eyes = AgentVideoReader(self, video_encoder_cfg, video_key, aux_keys, return_temporal_features)
        self.in_keys = self.eyes.in_keys

    def _heads(self, inputs: int, *, last_gain: float) -> nn.ModuleList:
        return nn.ModuleList(self._head(inputs, last_gain) for _ in range(1 if self.share_params else self.n_agents))

    def _head(self, inputs: int, last_gain: float) -> nn.Sequential:
        sizes = [inputs, *self.head_hidden_sizes]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers.append(_linear(before, after, 2**0.5))
            if self.layer_norm:
                layers.append(nn.LayerNorm(after))
            layers.append(self.activation_class())
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
        layers.append(_linear(sizes[-1], self.output_leaf_spec.shape[-1], last_gain))
        return nn.Sequential(*layers).to(self.device)

    def _by_agent(self, known: Tensor) -> Tensor:
        """The heads' answers [..., agents, outputs] to what is known [..., agents, inputs]."""
        if len(self.heads) == 1:
            answers: Tensor = self.heads[0](known)
            return answers
        return torch.stack([head(known[..., i, :]) for i, head in enumerate(self.heads)], -2)

    def _check_head(self) -> None:
        """Refuse head settings that cannot be right."""
        if any(type(size) is not int or size < 1 for size in self.head_hidden_sizes):
            raise ConfigError(f"head_hidden_sizes are {self.head_hidden_sizes}; give whole numbers above 0")
        activation: Any = self.activation_class  # from YAML, which may say anything
        if not (isinstance(activation, type) and issubclass(activation, nn.Module)):
            raise ConfigError(f"activation_class is {activation!r}; name a torch module, as torch.nn.Tanh")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it is a share from 0 to below 1")


class VideoPolicyModel(VideoModel):
    """The actor: each agent scores its actions by its own video; decentralised."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Small first scores: all actions begin nearly equally likely.
        self.heads = self._heads(self.eyes.width + self.eyes.aux_width, last_gain=0.01)

    def _perform_checks(self) -> None:
        super()._perform_checks()
        if self.centralised:
            raise ConfigError("an actor sees its own video only, and centralised is true; use it as the policy")
        if not self.input_has_agent_dim:
            raise ConfigError("the actor's input has no agent dimension; each agent needs a video of its own")

    def _forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.set(self.out_key, self.scores(tensordict))

    def scores(self, tensordict: TensorDictBase) -> Tensor:
        """[..., agents, actions] of what agents see."""
        return self._by_agent(torch.cat(self.eyes(tensordict), -1))


class VideoCentralCriticModel(VideoModel):
    """The critic: what each agent may hope for, from the embeddings of all; centralised.

    With common parameters BenchMARL wants one value for all: the mean over V_i.
    """

    def __init__(self, *, fusion: str, **settings: Any) -> None:
        super().__init__(**settings)
        if fusion not in FUSIONS:
            raise ConfigError(f"fusion is {fusion!r}{did_you_mean(str(fusion), FUSIONS)}")
        self.fusion = fusion
        together = self.eyes.width * (self.n_agents if fusion == "concat" else 1)
        self.heads = self._heads(self.eyes.width + together + self.eyes.aux_width, last_gain=1.0)

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
        values = self._by_agent(torch.cat([each, everything.unsqueeze(-2).expand(*each.shape[:-1], -1), aux], -1))
        return tensordict.set(self.out_key, values.mean(-2) if self.share_params else values)


@dataclass
class VideoModelConfig(ModelConfig):  # type: ignore[misc]
    """Settings that actor and critic share."""

    video_encoder_cfg: Any
    video_key: str
    aux_keys: Any
    head_hidden_sizes: Any
    activation_class: type[nn.Module]
    dropout: float
    layer_norm: bool
    return_temporal_features: bool

    NAME: ClassVar[str]
    """Of the model, in YAML."""

    @classmethod
    def get_from_yaml(cls, path: str | None = None) -> Self:
        return cls(**model_yaml(cls, cls.NAME, path))


@dataclass
class VideoPolicyModelConfig(VideoModelConfig):
    """Settings of the actor; conf/model/layers/video_policy.yaml explains each."""

    NAME: ClassVar[str] = "video_policy"

    @staticmethod
    def associated_class() -> type[VideoPolicyModel]:
        return VideoPolicyModel


@dataclass
class VideoCentralCriticModelConfig(VideoModelConfig):
    """Settings of the critic; conf/model/layers/video_central_critic.yaml explains each."""

    fusion: str

    NAME: ClassVar[str] = "video_central_critic"

    @staticmethod
    def associated_class() -> type[VideoCentralCriticModel]:
        return VideoCentralCriticModel


def clip_shape(spec: Any, agents: int, key: Key) -> ClipShape:
    """T/C/H/W of a video's spec, after a check that it is one."""
    shape = tuple(spec.shape)
    wanted = f"uint8 ({agents} agents, T, C, H, W)"
    if len(shape) != 5 or shape[0] != agents or spec.dtype is not torch.uint8:
        raise ConfigError(f"{'.'.join(key)} has {spec.dtype} {shape}; video is {wanted}")
    if shape[2] not in {1, 3}:
        hint = "it seems to be channels last, so leave channels_last off" if shape[-1] in {1, 3} else "C is 1 or 3"
        raise ConfigError(f"{'.'.join(key)} has shape {shape}; video is {wanted}: {hint}")
    return ClipShape(*shape[1:])


def _encode(encoder: nn.Module, video: Tensor) -> Tensor:
    features: Tensor = encoder(video.reshape(-1, *video.shape[-4:]))
    return features.reshape(*video.shape[:-4], *features.shape[1:])


def _find(known: dict[str, Key], name: str, setting: str) -> Key:
    if name not in known:
        raise ConfigError(f"{setting} names {name!r}, which is not observed{did_you_mean(str(name), known)}")
    return known[name]


def _flat_width(shape: Sequence[int], agents: int, key: Key) -> int:
    if not shape or shape[0] != agents:
        raise ConfigError(f"{'.'.join(key)} has shape {tuple(shape)}; its first dimension is the {agents} agents")
    return int(torch.Size(shape[1:]).numel())


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
