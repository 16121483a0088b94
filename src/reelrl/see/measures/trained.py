"""A trained autoencoder and the frames to judge it by: some it learned from, and some of episodes it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from reelrl.content.feeds.kinds import open_feed
from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import hub
from reelrl.see.frames.source import to_input
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.scores import Scores
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.weights import load_weights
from reelrl.settings import config
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from reelrl.see.measures.scores import Figures

HELD_OUT_SEED = 20_261
"""Of the episodes that no learner has seen; training seeds must be others."""

BATCH = 16
_BACKGROUND = 1000, 10  # of so many frames each tenth
STRETCH, GAP = 20, 200  # consecutive frames that are taken, then frames that are left out


@dataclass(frozen=True)
class TrainedModel:
    """A model, the source that it watched, and the seed of that stream."""

    name: str
    model: StreamingAutoEncoder
    source: str
    seed: int

    def __post_init__(self) -> None:
        if self.seed == HELD_OUT_SEED:
            raise ConfigError(f"{self.name} was trained with seed {self.seed}, that of the held-out episodes")

    @property
    def weights_bytes(self) -> int:
        """Of all that a receiver must have: parameters and the background, as they are kept."""
        return sum(value.numel() * value.element_size() for value in self.model.state_dict().values())


def load_trained(path: str | Path, *, source: str | None = None) -> TrainedModel:
    """A run of `reel train autoencoder`; or a .safetensors file or "hub:user/name", with the `source` it watched."""
    path = hub.on_this_machine(path)
    if Path(path).suffix == ".safetensors":
        if not Path(path).is_file():
            raise CheckpointError(f"{path} is not there; give weights that reel saved, or a run")
        if source is None:
            raise ConfigError(f"{path} does not say what it was trained on; add --source, such as ale:Breakout")
        return TrainedModel(Path(path).stem, _load_model(Path(path)), source, 0)
    from reelrl.runs.folder import RunFolder
    from reelrl.see.train import WEIGHTS, AutoEncoderTraining

    run = RunFolder(path)
    if run.stage != "autoencoder":
        raise ConfigError(f"{run.folder} is a run of {run.stage}; give one of reel train autoencoder")
    watched = source or run.settings(AutoEncoderTraining).source
    return TrainedModel(run.folder.name, _load_model(run.artifact(WEIGHTS)), watched, run.seed)


def _load_model(path: Path) -> StreamingAutoEncoder:
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("settings", "")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} cannot be read as weights ({error}); train until a checkpoint is saved"
        ) from error
    model = StreamingAutoEncoder(config.loads(AutoEncoderSettings, text, str(path)))
    load_weights(model, path)
    return model.eval()


def training_pictures(trained: TrainedModel, count: int = 32, every: int = 50) -> list[NDArray[np.uint8]]:
    """Pictures of the stream that the model learned from."""
    return [picture for _, picture in _some(trained.source, trained.seed, count, 1, every - 1)]


def held_out_pictures(source: str, count: int = 100) -> list[NDArray[np.uint8]]:
    """Pictures of unseen episodes: stretches of twenty, far apart."""
    return [picture for _, picture in _some(source, HELD_OUT_SEED, count, STRETCH, GAP)]


class Judge:
    """Scores pictures of held-out frames, which are the same for all."""

    def __init__(self, source: str, count: int = 100, device: str | torch.device = "cpu") -> None:
        self.native = held_out_pictures(source, count)
        self.frames = as_inputs(self.native).to(device)
        self._background = background_of(source).to(device)

    def __call__(self, pictures: Tensor) -> Figures:
        scores = Scores(1, self.frames.device)
        before = torch.cat([self.frames[:1], self.frames[:-1]])
        for some in zip(*map(in_batches, (pictures, self.frames, before)), strict=True):
            scores.add([some[0]], some[1], self._background, some[2])
        return scores.figures()[0]

    @torch.no_grad()
    def judge(self, model: StreamingAutoEncoder) -> Figures:
        """How well a model rebuilds the frames."""
        return self(torch.cat([model(batch) for batch in in_batches(self.frames)]))


@cache
def background_of(source: str) -> Tensor:
    """The median picture [1, 3, 224, 224] of a held-out stretch of a source: what is there when nothing happens."""
    shots = islice(open_feed(source, HELD_OUT_SEED).shots(), 0, *_BACKGROUND)
    median = np.median(np.stack([shot.picture for shot in shots]), axis=0).astype(np.uint8)
    return to_input(torch.from_numpy(median).permute(2, 0, 1))


def _some(source: str, seed: int, count: int, take: int, leave: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    taken = 0
    for number, shot in enumerate(open_feed(source, seed).shots()):
        if number % (take + leave) < take:
            yield number, shot.picture
            taken += 1
        if taken == count:
            return
    raise ConfigError(f"{source} has only {taken} frames to judge by, {count} were asked for; use fewer")


def as_inputs(pictures: list[NDArray[np.uint8]]) -> Tensor:
    """Pictures as the network sees them, [N, 3, 224, 224]."""
    return torch.cat([to_input(torch.from_numpy(picture).permute(2, 0, 1)) for picture in pictures])


def in_batches(tensor: Tensor) -> list[Tensor]:
    return [tensor[start : start + BATCH] for start in range(0, len(tensor), BATCH)]


@torch.no_grad()
def encode(model: StreamingAutoEncoder, frames: Tensor) -> list[NDArray[np.float32]]:
    """Embeddings, an array per branch."""
    batches = [model.encode(batch) for batch in in_batches(frames)]
    return [torch.cat(branch).numpy() for branch in zip(*batches, strict=True)]


@torch.no_grad()
def decode(model: StreamingAutoEncoder, embeddings: list[NDArray[np.float32]]) -> Tensor:
    branches = [in_batches(torch.from_numpy(branch)) for branch in embeddings]
    return torch.cat([model.decode((three, five, seven)) for three, five, seven in zip(*branches, strict=True)])
