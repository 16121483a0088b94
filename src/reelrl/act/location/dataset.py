"""A data set opened for a net: its map, the moments of each split, and what the players saw in them.

scenes = Scenes(settings, ["train", "val"])
settings = scenes.settings          # with the net made to fit the data
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reelrl.act.location.embeddings import Clips, Store
from reelrl.act.location.frame_reader.net import FrameReaderNet
from reelrl.act.location.row_encoders import FrozenRowEncoder, Thumbnails
from reelrl.act.location.samples import Moments
from reelrl.act.recording.xego import open_matches
from reelrl.errors import ConfigError, ContentError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import torch

    from reelrl.act.location.row_encoders import RowEncoder
    from reelrl.act.location.train import LocationTraining
    from reelrl.act.recording.reader import Matches, MatchInfo
    from reelrl.act.video.encoder import VideoEncoderSettings

LEAST = {"train": 2, "val": 1, "test": 1}
"""Matches that a split must have; "retrieval" is there or not."""


class Scenes:
    """`embeddings` is a folder of one's own for what a frozen encoder saw; `make=False` looks at no video."""

    def __init__(
        self,
        settings: LocationTraining,
        splits: Sequence[str],
        *,
        embeddings: str | Path | None = None,
        make: bool = True,
        device: str | torch.device = "cpu",
    ) -> None:
        self.data = open_matches(settings.data)
        self.map = label_map(self.data, settings.map)
        self.plan = self.data.map(self.map)
        self.samples = settings.samples
        matches_by_split = {split: matches_of(self.data, split, self.map) for split in splits}
        self.moments = {
            split: Moments.of(self.data, matches, self.samples, self.plan if split in LEAST else None)
            for split, matches in matches_by_split.items()
            if matches
        }
        self.store = Store(row_encoder_of(settings, device), embeddings, make=make)
        self.clips = {
            split: Clips.of(self.data, moments.matches, self.store) for split, moments in self.moments.items()
        }
        self.settings = self._fitted(settings)

    def apart_rows(self, seconds: float) -> int:
        """Rows that many seconds apart, as a whole number of strides."""
        stride = self.samples.stride
        return max(1, math.ceil(seconds * self.data.rows_per_second / stride)) * stride

    def _fitted(self, settings: LocationTraining) -> LocationTraining:
        """The settings with the places, the agents and the input of the net as they are here."""
        clips = next(iter(self.clips.values()))
        agents = max(moments.present.shape[1] for moments in self.moments.values())
        places = len(self.plan.places)
        reads: dict[str, Any] = dict.fromkeys(("embed_dim", "video_encoder", "clip", "players", "enemies"))
        if clips.is_video:
            reads |= {"video_encoder": settings.encoder, "clip": clips.clip_shape}
        else:
            reads["embed_dim"] = clips.width(settings.pooling)
        if settings.pooling == "memory":
            if not _is_frozen_reader(settings.encoder):
                raise ConfigError(
                    "pooling=memory needs what a frozen frame reader says of each place, and the encoder is "
                    f"{settings.encoder.model_type}; give --frame-reader RUN of `reel train frame-reader`, or --set "
                    "pooling=mean+last for other encoders"
                )
            reads |= {"players": agents, "enemies": self._enemies(settings.encoder, agents)}
        net = replace(settings.net, num_places=places, num_agents=agents, **reads)
        return replace(settings, map=self.map, net=net)

    def _enemies(self, reader: VideoEncoderSettings, players: int) -> int:
        """How many of them this frame reader tells apart, which must know the places and players that are here."""
        known, here = FrameReaderNet.load(str(reader.weights)).settings, (len(self.plan.places), players)
        if (known.places, known.players) != here:
            raise ConfigError(
                f"this frame reader knows {known.places} places and {known.players} players, and matches on {self.map} "
                f"in {self.data.folder} have {here[0]} and {here[1]}; give one that `reel train frame-reader` trained "
                "on them"
            )
        return known.enemies

    def names(self) -> bool:
        """Whether a frozen frame reader tells all bodies of these matches apart."""
        if not _is_frozen_reader(self.settings.encoder):
            return False
        known = FrameReaderNet.load(str(self.settings.encoder.weights)).settings
        matches = [info for split, moments in self.moments.items() if split in LEAST for info in moments.matches]
        labels = [self.data.match(info.id).labels for info in matches]
        return {(each.alive.shape[1], each.enemy_alive.shape[1]) for each in labels} == {(known.players, known.enemies)}


def _is_frozen_reader(encoder: VideoEncoderSettings) -> bool:
    return encoder.model_type == "frame-reader" and encoder.freeze_backbone


def row_encoder_of(settings: LocationTraining, device: str | torch.device = "cpu") -> RowEncoder:
    """A frozen encoder is run once over all rows; one that learns gets pictures."""
    if settings.encoder.freeze_backbone:
        return FrozenRowEncoder(
            settings.encoder, settings.samples, settings.picture_size, settings.frames_per_row, device
        )
    return Thumbnails(settings.samples, settings.picture_size)


def matches_of(data: Matches, split: str, map_name: str) -> list[MatchInfo]:
    """Those of a split that are on the map, or for retrieval on any."""
    matches = [info for info in data.matches if info.split == split and (split not in LEAST or info.map == map_name)]
    if len(matches) < LEAST.get(split, 0):
        raise ContentError(
            f"{data.folder} has {len(matches)} of the {LEAST[split]} or more matches of split {split!r} on map "
            f"{map_name} that are needed; six matches have all splits: reel collect doom --matches 6 -o {data.folder}"
        )
    unlabelled = [info.id for info in matches if not info.labelled]
    if unlabelled and split in LEAST:
        raise ContentError(
            f"{len(unlabelled)} of {len(matches)} matches of split {split!r} in {data.folder} have no labels.npz (the "
            f"first is {unlabelled[0]}), which tell who is where; copy them again, or remove the folders of these "
            "matches and collect them once more. `reel pretrain views` needs no labels"
        )
    return matches


def label_map(data: Matches, wanted: str | None) -> str:
    """The map whose places are learned."""
    known = sorted({info.map for info in data.matches if info.split != "retrieval"})
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted is None:
        raise ConfigError(
            f"{data.folder} has training matches on {len(known)} maps ({', '.join(known) or 'none'}), and places are "
            "those of one; choose with --set map=NAME"
        )
    if wanted not in known:
        raise ConfigError(f"{data.folder} has no matches on map {wanted!r}{did_you_mean(wanted, known)}")
    return wanted
