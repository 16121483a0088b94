"""Eyes for the location net: an encoder that learns from single pictures what is on them.

    reel train eyes DATA                       the encoder, once
    reel train location DATA --eyes RUN        nets on its kept embeddings, as many as you like

Every picture is a sample of its own with plain questions, so this takes minutes where the location net, which hears of
whole teams alone, would take hours. Only training matches are learned from; validation matches choose the epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from reelrl import seeding
from reelrl.act.location.embeddings import Store
from reelrl.act.location.epochs import EpochTrainer
from reelrl.act.location.eyes import Thumbnails
from reelrl.act.location.glances import HEADINGS, Glances
from reelrl.act.location.precision import mean_precision
from reelrl.act.location.samples import SampleSettings
from reelrl.act.location.scenes import label_map, matches_of
from reelrl.act.recording.xego import open_matches
from reelrl.act.video_encoder import ClipShape, VideoEncoderSettings, make_video_encoder
from reelrl.errors import CheckpointError, ConfigError
from reelrl.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.runs import Run

WEIGHTS = "eyes.safetensors"
_WARM_UP = 0.1  # share of all steps in which the learning rate rises


def usual_eyes() -> VideoEncoderSettings:
    return VideoEncoderSettings(model_type="cnn", channels=(24, 48, 64), embed_dim=256)


@dataclass(frozen=True, kw_only=True)
class EyesTraining:
    """What is looked at, and how it is learned."""

    data: str
    map: str | None = None
    """Whose places are learned; None: the one map that the training matches are on."""
    encoder: VideoEncoderSettings = field(default_factory=usual_eyes)
    picture_size: tuple[int, int] | None = None
    """Height and width that pictures are shrunk to; None: as they were recorded."""
    stride: int = 2
    """Rows from one picture to the next."""
    epochs: int = 8
    batch: int = 128
    lr: float = 1e-3
    """The highest; it rises during the first tenth of the steps and then falls to nothing."""
    weight_decay: float = 0.05
    dropout: float = 0.3
    """Share of the embedding that each answer must do without, in training."""
    shake: float = 0.06
    """Pictures are moved by up to this share of their width, and made brighter or darker by three times as much."""

    def __post_init__(self) -> None:
        for name in ("dropout", "shake"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it is a share from 0 to below 1")
        for name in ("stride", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not 0 < self.lr < 1:
            raise ConfigError(f"lr is {self.lr}; give a number between 0 and 1")
        if self.encoder.freeze_backbone:
            raise ConfigError("encoder.freeze_backbone is true: frozen eyes learn nothing; set it to false")


class EyesNet(nn.Module):
    """An encoder, and one layer for each question."""

    def __init__(
        self, settings: VideoEncoderSettings, picture: tuple[int, int, int], places: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.encoder = make_video_encoder(settings, ClipShape(1, *picture))
        self.dropout = nn.Dropout(dropout)
        sizes = {"place": places, "heading": HEADINGS, "mates": places, "enemies": places}
        self.heads = nn.ModuleDict({name: nn.Linear(self.encoder.embed_dim, size) for name, size in sizes.items()})

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        """Logits for uint8 pictures [N, 3, height, width]."""
        features = self.dropout(self.encoder(pictures[:, None])[:, -1])
        return {name: head(features) for name, head in self.heads.items()}

    def save(self, path: Path) -> None:
        from safetensors.torch import save_file

        tensors = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        with atomic_path(path, error=CheckpointError) as temporary:
            save_file(tensors, temporary)


class EyesTrainer(EpochTrainer):
    """Learns all questions at once; the epoch with the lowest loss on validation matches stays."""

    net: EyesNet

    def __init__(self, settings: EyesTraining, seed: int, run: Run, glances: dict[str, Glances]) -> None:
        super().__init__(seed, run, settings.epochs, settings.epochs)
        self.settings, self.glances = settings, glances
        seeding.seed_globals(seed)
        train = glances["train"]
        height, width = train.pictures.shape[2:]
        self.net = EyesNet(settings.encoder, (3, height, width), train.mates.shape[1], settings.dropout)
        self.optimiser = torch.optim.AdamW(self.net.parameters(), settings.lr, weight_decay=settings.weight_decay)

    def batches(self, rng: np.random.Generator) -> Sequence[NDArray[np.int64]]:
        count = len(self.glances["train"])
        self._steps = self.epoch * -(-count // self.settings.batch)
        return np.array_split(rng.permutation(count), -(-count // self.settings.batch))

    def loss(self, batch: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        self._steps += 1
        whole = self.settings.epochs * -(-len(self.glances["train"]) // self.settings.batch)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.lr * schedule(self._steps / whole)
        train, chosen = self.glances["train"], torch.from_numpy(batch)
        losses = _losses(self.net(shaken(train.pictures[chosen], rng, self.settings.shake)), train, chosen)
        return torch.stack(list(losses.values())).sum(), {f"loss/{name}": one.item() for name, one in losses.items()}

    @torch.no_grad()
    def validate(self) -> tuple[float, dict[str, float]]:
        self.net.eval()
        glances = self.glances["val"]
        parts = [self.net(part) for part in torch.split(glances.pictures, 256)]
        said = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        loss = sum(one.item() for one in _losses(said, glances, torch.arange(len(glances))).values())
        there = glances.place >= 0
        figures = {
            "place": (said["place"].argmax(1) == glances.place)[there].float().mean().item(),
            "heading": (said["heading"].argmax(1) == glances.heading).float().mean().item(),
            "mates": mean_precision(said["mates"].numpy(), glances.mates.numpy()),
            "enemies": mean_precision(said["enemies"].numpy(), glances.enemies.numpy()),
            "loss": loss,
        }
        return -loss, {f"val/{name}": value for name, value in figures.items()}

    def keep_best(self) -> None:
        self.net.save(self.run.artifacts / WEIGHTS)


def open_glances(settings: EyesTraining) -> dict[str, Glances]:
    """The pictures of the training and validation matches."""
    data = open_matches(settings.data)
    name = label_map(data, settings.map)
    store = Store(Thumbnails(SampleSettings(frames=1, stride=settings.stride), settings.picture_size))
    return {split: Glances.of(data, matches_of(data, split, name), store, data.map(name)) for split in ("train", "val")}


def schedule(share: float) -> float:
    """The learning rate as a share of the highest, after a share of all steps."""
    if share < _WARM_UP:
        return share / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP)))


def shaken(pictures: Tensor, rng: np.random.Generator, most: float, groups: int = 16) -> Tensor:
    """Pictures moved and lit a little differently, some together, so that none is learned by heart; as floats."""
    if not most:
        return pictures
    height, width = pictures.shape[2:]
    reach = round(most * width)
    parts = []
    for part in torch.tensor_split(pictures, groups):
        down, right = (int(rng.integers(-limit, limit + 1)) for limit in (reach // 2, reach))
        rows = (torch.arange(height) + down).clamp(0, height - 1)
        columns = (torch.arange(width) + right).clamp(0, width - 1)
        gain = torch.from_numpy(rng.uniform(1 - 3 * most, 1 + 3 * most, len(part))).float()
        parts.append(part[:, :, rows][:, :, :, columns].float() * gain[:, None, None, None])
    return torch.cat(parts).clamp(0, 255)


def _losses(said: dict[str, Tensor], glances: Glances, chosen: Tensor) -> dict[str, Tensor]:
    """Nats per picture; places with somebody on the screen are questions of their own, and add up."""

    def marks(name: str) -> Tensor:
        truth = getattr(glances, name)[chosen].float()
        return binary_cross_entropy_with_logits(said[name], truth, reduction="none").sum(1).mean()

    return {
        "place": cross_entropy(said["place"], glances.place[chosen], ignore_index=-1),
        "heading": cross_entropy(said["heading"], glances.heading[chosen], ignore_index=-1),
        "mates": marks("mates"),
        "enemies": marks("enemies"),
    }
