"""`FrameReaderNet`: one frame, and what is on it.

    picture [3, H, W] ─► residual convolutions [C, H/8, W/8] ─┬─► layer [E] ─► own cell, heading, places in view
                                                              │      │
      who is in a cell, column by column [W/8, bodies, cells] ◄┴─ columns of the picture, each told of [E]

A column says who is on it, and in which cell of the map: a body's colours tell its name, how large and how high it is
drawn how far it is, and [E] from where and in which direction it is seen. Bodies are the players, then the enemies.

`FrameReaderEncoder` is such a net frozen, as an encoder: what it reads off each frame, by place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.act.location.frame_reader.labelled_frames import CELLS, HEADINGS
from reelrl.act.location.readings import readings_of, surest
from reelrl.act.location.saved_net import load_net, save_net
from reelrl.act.video.encoder import ClipShape, VideoEncoder, VideoEncoderSettings
from reelrl.act.video.residual import halving, residual_trunk
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

OF_A_PLACE = CELLS * CELLS
KIND, FORMER_KINDS = "frame-reader", ("eyes",)  # in saved files; the former are those of version 0.1


@dataclass(frozen=True, kw_only=True)
class FrameReaderSettings:
    """Layers of a `FrameReaderNet`; what it sees comes from the data, whatever is written here."""

    places: int = 1
    players: int = 1
    enemies: int = 1
    """That are told apart; 1 is all of them."""
    picture: tuple[int, int] = (120, 160)
    """Height and width."""
    channels: tuple[int, ...] = (16, 32, 64)
    """Of the convolutions; each halves the picture."""
    blocks: tuple[int, ...] = (0, 1, 1)
    """Residual blocks after each of them."""
    embed_dim: int = 128
    column_dim: int = 128
    dropout: float = 0.2
    """Share of [E] that answers must do without, in training."""

    def __post_init__(self) -> None:
        for name in ("places", "players", "enemies", "embed_dim", "column_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not self.channels or min(self.channels) < 1:
            raise ConfigError(f"channels are {self.channels}; give one or more numbers above 0")
        if len(self.blocks) != len(self.channels) or min(self.blocks) < 0:
            raise ConfigError(f"blocks are {self.blocks}; give a number for each of the channels {self.channels}")
        if min(self.picture) < 2 ** (len(self.channels) + 1):
            raise ConfigError(
                f"pictures of {self.picture[0]} x {self.picture[1]} are too small for {len(self.channels)} "
                "convolutions that halve them; use larger ones or fewer channels"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it is a share from 0 to below 1")

    @property
    def bodies(self) -> int:
        return self.players + self.enemies

    @property
    def cells(self) -> int:
        return self.places * OF_A_PLACE

    @property
    def columns(self) -> int:
        return math.ceil(self.picture[1] / (1 << len(self.channels)))


class FrameReaderNet(nn.Module):
    """uint8 or float pictures [N, 3, height, width] in 0 to 255 to logits by name."""

    def __init__(self, settings: FrameReaderSettings) -> None:
        super().__init__()
        self.settings = settings
        last, height = settings.channels[-1], -(-settings.picture[0] // 2 ** len(settings.channels))
        self.trunk = residual_trunk(settings.channels, settings.blocks)
        few, half = last // 2 or 1, math.ceil(height / 2) * math.ceil(settings.columns / 2)
        self.whole = nn.Sequential(
            halving(last, few), nn.Flatten(), nn.Linear(few * half, settings.embed_dim), nn.ReLU()
        )
        self.dropout = nn.Dropout(settings.dropout)
        sizes = {"own": settings.cells, "heading": HEADINGS, "view": settings.places}
        self.heads = nn.ModuleDict({name: nn.Linear(settings.embed_dim, size) for name, size in sizes.items()})
        wide = settings.column_dim
        self.column = nn.Conv2d(last, wide, (height, 1))
        self.from_where = nn.Linear(settings.embed_dim, wide)
        self.where = nn.Parameter(torch.randn(wide, settings.columns) * 0.02)
        self.who = nn.Sequential(
            nn.ReLU(),
            nn.Conv1d(wide, wide, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(wide, settings.bodies * settings.cells, 1),
        )
        # Most cells of most columns are empty: to begin there saves the first epoch.
        nn.init.constant_(self.who[-1].bias, -6.0)  # type: ignore[arg-type]

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        """Logits: own [N, cells], heading [N, HEADINGS], view [N, places], columns [N, columns, bodies, cells]."""
        seen = self.trunk(pictures.float() / 127.5 - 1)
        whole = self.dropout(self.whole(seen))
        columns = self.who(self.column(seen).squeeze(2) + self.from_where(whole)[..., None] + self.where)
        said = {name: head(whole) for name, head in self.heads.items()}
        return said | {"columns": torch.unflatten(columns.transpose(1, 2), 2, (self.settings.bodies, -1))}

    def readings(self, pictures: Tensor) -> Tensor:
        """What the pictures say of each place [N, places, F], as readings.py lists it; 0 is "nothing"."""
        said = {name: each.float() for name, each in self(pictures).items()}
        own = by_place(said["own"].softmax(-1)).sum(-1, keepdim=True)
        seen = by_place(somebody(said["columns"]).sigmoid()).transpose(1, 2)  # [N, places, bodies, cells of a place]
        angle = (torch.arange(HEADINGS, device=own.device) + 0.5) * (2 * math.pi / HEADINGS)
        towards = said["heading"].softmax(-1) @ torch.stack([angle.cos(), angle.sin()], 1)
        there = 1 - (1 - seen).prod(-1)
        return torch.cat([own, said["view"].sigmoid()[..., None], own * towards[:, None], there], -1)

    def save(self, path: str | Path) -> None:
        """Weights and settings in one safetensors file."""
        save_net(self, KIND, path)

    @classmethod
    def load(cls, path: str | Path) -> FrameReaderNet:
        """The net that `save` wrote, ready to answer; loading runs no code."""
        return load_net(
            cls,
            FrameReaderSettings,
            (KIND, *FORMER_KINDS),
            path,
            name="frame reader",
            give="the file that `reel train frame-reader` leaves, of this version",
        )


class FrameReaderEncoder(VideoEncoder):
    """What a frame reader reads off a clip up to each frame, place after place: [N, T, places * F]."""

    per_frame = True

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        if settings.weights is None:
            raise ConfigError(
                "a frame reader must have been trained, and weights is null; give the "
                "artifacts/frame-reader.safetensors of a run of `reel train frame-reader`"
            )
        self.net = FrameReaderNet.load(settings.weights).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        known = self.net.settings
        if (clip.channels, clip.height, clip.width) != (3, *known.picture):
            raise ConfigError(
                f"this frame reader takes RGB frames of {known.picture[0]} x {known.picture[1]}, and these have "
                f"{clip.channels} x {clip.height} x {clip.width}; train one on such frames"
            )
        self.embed_dim = known.places * readings_of(known.bodies)

    def forward(self, video: Tensor) -> Tensor:
        pictures = video.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        return surest(torch.unflatten(self.net.readings(pictures), 0, tuple(video.shape[:2]))).flatten(2)


def somebody(columns: Tensor) -> Tensor:
    """Logits [N, bodies, cells] that a body is there, from those of each column: their odds add up."""
    return columns.logsumexp(1)


def by_place(cells: Tensor) -> Tensor:
    """[..., cells] as [..., places, cells of a place]."""
    return torch.unflatten(cells, -1, (-1, OF_A_PLACE))
