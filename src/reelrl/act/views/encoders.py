"""Frozen encoders that are compared, by what the command line calls them.

    runs/0007                      a run of `reel pretrain views`, `train autoencoder` or `train frame-reader`
    effnet-lite0, dinov2=FOLDER    an encoder by its type, with its own weights or those of a folder
    FOLDER                         embeddings that somebody else made, as precomputed.py reads them

Runs that differ in nothing but the seed are one encoder. Beside those of `reel pretrain views` stands the same encoder
as it was before any training, once for each of their seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.act.location.embeddings import RowStore, Store
from reelrl.act.location.frame_reader.train import FrameReaderTraining, weights_of
from reelrl.act.location.model.contrastive_loss import CrossEgoContrastive
from reelrl.act.location.row_encoders import FrozenRowEncoder, Thumbnails, encoder_facts
from reelrl.act.location.samples import SampleSettings
from reelrl.act.video.encoder import ENCODERS, ClipShape, VideoEncoderSettings, encode_frozen, frozen_video_encoder
from reelrl.act.views.net import ViewNet
from reelrl.act.views.precomputed import NAME as PRECOMPUTED
from reelrl.act.views.precomputed import PrecomputedEmbeddings
from reelrl.act.views.pretrain import WEIGHTS, ViewsTraining
from reelrl.errors import ConfigError
from reelrl.names import known
from reelrl.runs.folder import META, RunFolder
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from reelrl.act.recording.reader import Matches, MatchReader

UNTRAINED = "untrained"
_TYPES_THAT_LEARN = ("cnn", "video-transformer", "residual-cnn")
_GIVE = (
    "give runs of `reel pretrain views`, `train autoencoder` or `train frame-reader`, an encoder by its type, such as "
    f"effnet-lite0 or dinov2=FOLDER, or a folder of embeddings with an {PRECOMPUTED}"
)


@dataclass(frozen=True, eq=False)
class FrozenViews:
    """One encoder: where the embeddings of each seed come from, and its projector if it has one."""

    name: str
    stores: tuple[RowStore, ...]
    projectors: tuple[CrossEgoContrastive, ...] = ()

    def store(self, number: int) -> RowStore:
        """That of the n-th seed; an encoder without seeds is the same every time."""
        return self.stores[number % len(self.stores)]


class ThumbnailEncoder:
    """Encodes small pictures that are cached for all encoders that see them so: [players, rows, embed_dim]."""

    rows_per_clip = 1

    def __init__(
        self,
        encoder: VideoEncoderSettings,
        samples: SampleSettings,
        size: tuple[int, int],
        data: Matches,
        device: str | torch.device,
    ) -> None:
        self.encoder, self.stride, self.data, self.device = encoder, samples.stride, data, device
        self.pictures = Store(Thumbnails(samples, size))
        frames = {"stride": self.stride, "frames": [1, self.stride], "pictures": list(size), "shrunk": "before"}
        self.facts: dict[str, Any] = {"encoder": encoder_facts(encoder), **frames}

    def encode(self, match: MatchReader, on_rows: Callable[[int], None]) -> NDArray[np.float32]:
        pictures = torch.from_numpy(self.pictures.rows(self.data, match.info, lambda _: None))
        encoder = frozen_video_encoder(self.encoder, ClipShape(1, *pictures.shape[2:]), self.device)
        embeddings = []
        for player in pictures:
            embeddings.append(encode_frozen(encoder, player[:, None].to(self.device))[:, 0].cpu().numpy())
            on_rows(len(player))
        return np.stack(embeddings)


def open_encoders(
    words: Sequence[str], data: Matches, stride: int, device: str | torch.device = "cpu"
) -> list[FrozenViews]:
    """The encoders that these words name, untrained ones first."""
    samples = SampleSettings(frames=1, stride=stride)
    runs: dict[str, list[tuple[RunFolder, ViewsTraining]]] = {}
    found: list[FrozenViews] = []
    for word in words:
        if (Path(word) / PRECOMPUTED).exists():
            found.append(_precomputed(Path(word), stride))
        elif (Path(word) / META).exists() or word.isdecimal() or "/" in word.partition("=")[0]:
            folder = RunFolder(word)
            if folder.stage == "views":
                settings = folder.settings(ViewsTraining)
                runs.setdefault(config.dumps(replace(settings, data="")), []).append((folder, settings))
            else:
                found.append(_of_other_stage(folder, samples, device))
        else:
            found.append(_by_type(word, samples, device))
    learned = [sorted(group, key=lambda each: each[0].seed) for group in runs.values()]
    every = [*_untrained(learned, samples, data, device), *_learned(learned, samples, data, device), *found]
    twice = {each.name for each in every if [other.name for other in every].count(each.name) > 1}
    if twice:
        raise ConfigError(f"{len(twice)} encoders are given twice ({', '.join(sorted(twice))}); give each once")
    return every


def _learned(
    groups: Sequence[Sequence[tuple[RunFolder, ViewsTraining]]],
    samples: SampleSettings,
    data: Matches,
    device: str | torch.device,
) -> list[FrozenViews]:
    objectives = [group[0][1].net.objective for group in groups]
    encoders = []
    for group, objective in zip(groups, objectives, strict=True):
        alone = objectives.count(objective) == 1
        stores, projectors = [], []
        for folder, settings in group:
            weights = folder.artifact(WEIGHTS)
            net = ViewNet.load(weights)
            if isinstance(net.head, CrossEgoContrastive):
                projectors.append(net.head)
            encoder = VideoEncoderSettings(model_type="views", freeze_backbone=True, weights=str(weights))
            stores.append(Store(ThumbnailEncoder(encoder, samples, settings.net.picture, data, device)))
        name = objective if alone else f"{objective} ({group[0][0].folder.name})"
        encoders.append(FrozenViews(name, tuple(stores), tuple(projectors)))
    return encoders


def _untrained(
    groups: Sequence[Sequence[tuple[RunFolder, ViewsTraining]]],
    samples: SampleSettings,
    data: Matches,
    device: str | torch.device,
) -> list[FrozenViews]:
    """Each kind of encoder as it was before: with weights by chance, or with those that it began with."""
    kinds: dict[tuple[str, tuple[int, int]], tuple[VideoEncoderSettings, set[int]]] = {}
    for group in groups:
        for folder, settings in group:
            before = replace(settings.net.encoder, freeze_backbone=True)
            key = (config.dumps(before), settings.net.picture)
            kinds.setdefault(key, (before, set()))[1].add(folder.seed)
    encoders = []
    for (_, size), (before, seeds) in kinds.items():
        by_chance = before.model_type in _TYPES_THAT_LEARN and before.weights is None
        each = [replace(before, seed=seed) for seed in sorted(seeds)] if by_chance else [before]
        stores = tuple(Store(ThumbnailEncoder(one, samples, size, data, device)) for one in each)
        name = UNTRAINED if by_chance else f"{before.model_type} as it began"
        encoders.append(FrozenViews(name if len(kinds) == 1 else f"{name}, {before.model_type}", stores))
    return encoders


def _of_other_stage(folder: RunFolder, samples: SampleSettings, device: str | torch.device) -> FrozenViews:
    size = None
    if folder.stage == "autoencoder":
        from reelrl.see.train import WEIGHTS as AUTOENCODER_WEIGHTS

        kind, weights = "streaming-ae", folder.artifact(AUTOENCODER_WEIGHTS)
    elif folder.stage == "frame-reader":
        kind, weights, size = "frame-reader", weights_of(folder), folder.settings(FrameReaderTraining).picture_size
    else:
        raise ConfigError(f"{folder.folder} is a run of stage {folder.stage}, which has no encoder of views; {_GIVE}")
    encoder = VideoEncoderSettings(model_type=kind, freeze_backbone=True, weights=str(weights))
    name = {"streaming-ae": "streaming autoencoder", "frame-reader": "frame reader"}[kind]
    return FrozenViews(name, (Store(FrozenRowEncoder(encoder, samples, size, device=device)),))


def _by_type(word: str, samples: SampleSettings, device: str | torch.device) -> FrozenViews:
    kind, _, weights = word.partition("=")
    try:
        known(ENCODERS, kind)
    except ConfigError as error:
        raise ConfigError(f"--encoder {word}: {error}; {_GIVE}") from error
    size = 96 if kind == "effnet-lite0" else None  # the one that takes any size; views are hardly larger
    encoder = VideoEncoderSettings(model_type=kind, freeze_backbone=True, weights=weights or None, image_size=size)
    return FrozenViews(kind, (Store(FrozenRowEncoder(encoder, samples, device=device)),))


def _precomputed(folder: Path, stride: int) -> FrozenViews:
    embeddings = PrecomputedEmbeddings(folder)
    if embeddings.stride != stride:
        raise ConfigError(
            f"{folder} has every {embeddings.stride}th row, and every {stride}th is looked at; give --stride "
            f"{embeddings.stride}, or embeddings of those rows"
        )
    return FrozenViews(embeddings.name, (embeddings,))
