"""What the video actor and the video critic have in common: what reads the video of a tensordict, and a head."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reelrl.act.marl.benchmarl.frozen_encoder import EMBEDDING
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


class VideoReader(nn.Module):
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
        return torch.stack([_encode(eye, seen[..., i, :, :, :, :]) for i, eye in enumerate(self.encoders)], -3)


def head(inputs: int, hidden: Sequence[int], outputs: int, model: Any, *, last_gain: float) -> nn.Sequential:
    """A plain network; `model` says which activation, dropout and normalisation."""
    layers: list[nn.Module] = []
    for before, after in pairwise([inputs, *hidden]):
        layers.append(_linear(before, after, 2**0.5))
        if model.layer_norm:
            layers.append(nn.LayerNorm(after))
        layers.append(model.activation_class())
        if model.dropout:
            layers.append(nn.Dropout(model.dropout))
    layers.append(_linear([inputs, *hidden][-1], outputs, last_gain))
    return nn.Sequential(*layers).to(model.device)


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


def check_head(model: Any) -> None:
    """Refuse head settings that cannot be right."""
    if any(type(size) is not int or size < 1 for size in model.head_hidden_sizes):
        raise ConfigError(f"head_hidden_sizes are {model.head_hidden_sizes}; give whole numbers above 0")
    if not (isinstance(model.activation_class, type) and issubclass(model.activation_class, nn.Module)):
        raise ConfigError(f"activation_class is {model.activation_class!r}; name a torch module, as torch.nn.Tanh")
    if not 0 <= model.dropout < 1:
        raise ConfigError(f"dropout is {model.dropout}; it is a share from 0 to below 1")


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
