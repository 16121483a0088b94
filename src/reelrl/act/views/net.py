"""`ViewNet`: an encoder of one player's view, and what teaches it.

    picture [3, H, W] ─► encoder ─► embedding [E] ─┬─ contrastive: projector, and the views of mates at the same moment
                                                   ├─ reconstruction: a decoder that paints the picture again
                                                   └─ labels: a layer that says who is at which place, now and later

The encoder is what stays; `PretrainedViews` is it as a video encoder, for nets and teams of all kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from reelrl.act.location.model.contrastive_loss import ContrastiveLoss, CrossEgoContrastive
from reelrl.act.location.saved_net import load_net, save_net
from reelrl.act.video.encoder import ClipShape, VideoEncoder, VideoEncoderSettings, make_video_encoder
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

Objective = Literal["contrastive", "reconstruction", "labels"]
KIND = "view_net"
# Of these the saved file has every weight: where the first ones came from does not matter any more.
_WHOLLY_SAVED = ("cnn", "video-transformer", "residual-cnn", "effnet-lite0")
_PAINTED = (6, 8)  # where a decoder begins


def usual_encoder() -> VideoEncoderSettings:
    return VideoEncoderSettings(model_type="residual-cnn", channels=(8, 16, 32))


@dataclass(frozen=True, kw_only=True)
class ViewNetSettings:
    """Layers of a `ViewNet`."""

    encoder: VideoEncoderSettings = field(default_factory=usual_encoder)
    """`encoder.weights` are what it begins with."""
    picture: tuple[int, int] = (36, 48)
    """Height and width that larger pictures are shrunk to."""
    objective: Objective = "contrastive"
    proj_dim: int = 128
    hidden_dim: int = 256
    """Of the projector."""
    loss: ContrastiveLoss = "softmax"
    """In batches of a few hundred views `sigmoid` learns little more than that most pairs are of different moments."""
    init_logit_scale: float = 10.0
    init_logit_bias: float = -10.0
    """Of `sigmoid`: most pairs are of different moments."""
    questions: int = 1
    """That the labels answer; from the data, whatever is written here."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ConfigError(f"objective is {self.objective!r}{did_you_mean(self.objective, get_args(Objective))}")
        for name in ("proj_dim", "hidden_dim", "questions"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if min(self.picture) < 8:
            raise ConfigError(f"picture is {self.picture[0]} x {self.picture[1]}; give 8 pixels or more to a side")
        if self.encoder.freeze_backbone:
            raise ConfigError("encoder.freeze_backbone is true, so nothing would be learned; leave it out")

    @property
    def clip(self) -> ClipShape:
        return ClipShape(1, 3, *self.picture)


class ViewNet(nn.Module):
    """Pictures [N, 3, height, width] from 0 to 255, uint8 or float, to embeddings; `head` is what teaches them."""

    def __init__(self, settings: ViewNetSettings) -> None:
        super().__init__()
        self.encoder = make_video_encoder(settings.encoder, settings.clip)
        known = settings.encoder.model_type in _WHOLLY_SAVED
        self.settings = replace(settings, encoder=replace(settings.encoder, weights=None)) if known else settings
        width = self.encoder.embed_dim
        self.head: CrossEgoContrastive | PictureDecoder | nn.Linear
        if settings.objective == "contrastive":
            self.head = CrossEgoContrastive(
                width,
                settings.proj_dim,
                settings.hidden_dim,
                init_logit_scale=settings.init_logit_scale,
                init_logit_bias=settings.init_logit_bias,
                turn_off_bias=settings.loss == "softmax",  # which a bias means nothing to
                loss=settings.loss,
            )
        elif settings.objective == "reconstruction":
            self.head = PictureDecoder(width, settings.picture)
        else:
            self.head = nn.Linear(width, settings.questions)

    def embed(self, pictures: Tensor) -> Tensor:
        """[N, embed_dim]"""
        features: Tensor = self.encoder(pictures[:, None])
        return features[:, 0]

    def save(self, path: str | Path) -> None:
        """Weights and settings in one safetensors file."""
        save_net(self, KIND, path)

    @classmethod
    def load(cls, path: str | Path) -> ViewNet:
        """The net that `save` wrote, ready to be used; loading runs no code."""
        give = "the artifacts/views.safetensors of a run of `reel pretrain views`"
        return load_net(cls, ViewNetSettings, [KIND], path, name="encoder of views", give=give)


class PictureDecoder(nn.Module):
    """Embeddings [N, E] to pictures [N, 3, height, width], where 0 is black and 1 as bright as can be."""

    def __init__(self, embed_dim: int, picture: tuple[int, int], channels: int = 16) -> None:
        super().__init__()
        self.picture, rows = picture, _PAINTED[0] * _PAINTED[1]
        self.first = nn.Sequential(nn.Linear(embed_dim, channels * rows), nn.Unflatten(1, (channels, *_PAINTED)))
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.last = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, embeddings: Tensor) -> Tensor:
        painted = torch.relu(self.first(embeddings))
        for layer in self.layers:
            painted = torch.relu(layer(nn.functional.interpolate(painted, scale_factor=2.0, mode="nearest")))
        picture: Tensor = self.last(nn.functional.interpolate(painted, self.picture, mode="nearest"))
        return picture


class PretrainedViews(VideoEncoder):
    """The encoder of a `ViewNet`, frame by frame; larger pictures are shrunk to what it learned from."""

    per_frame = True

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        if settings.weights is None:
            raise ConfigError(
                "views must have been learned, and weights is null; give the artifacts/views.safetensors of a run of "
                "`reel pretrain views`"
            )
        if clip.channels != 3:
            raise ConfigError(f"views are RGB, and this video has {clip.channels} channels")
        net = ViewNet.load(settings.weights)
        self.net, self.picture, self.embed_dim = net.encoder, net.settings.picture, net.encoder.embed_dim

    def forward(self, video: Tensor) -> Tensor:
        pictures = video.flatten(0, 1).float()
        if pictures.shape[-2:] != self.picture:
            pictures = nn.functional.interpolate(pictures, self.picture, mode="area")
        return torch.unflatten(self.net(pictures[:, None])[:, 0], 0, tuple(video.shape[:2]))
