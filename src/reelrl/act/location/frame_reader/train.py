"""The frame reader of the location net: a net that learns from single frames what is on them.

    reel train frame-reader DATA                       once
    reel train location DATA --frame-reader RUN        nets on what it reads off every frame, as many as you like

Every frame is a sample of its own with plain questions, so this takes minutes where the location net, which hears of
whole teams alone, would take hours. Only training matches are learned from; validation matches choose the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from reelrl import seeding
from reelrl.act.location.dataset import label_map, matches_of
from reelrl.act.location.embeddings import Store
from reelrl.act.location.epochs import EpochTrainer
from reelrl.act.location.frame_reader.labelled_frames import LabelledFrames, distinct_bodies, look, on_columns
from reelrl.act.location.frame_reader.net import OF_A_PLACE, FrameReaderNet, FrameReaderSettings, by_place, somebody
from reelrl.act.location.row_encoders import Thumbnails
from reelrl.act.location.samples import SampleSettings
from reelrl.act.location.scores import mean_precision
from reelrl.act.recording.xego import open_matches
from reelrl.errors import ConfigError
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.act.location.frame_reader.labelled_frames import Seen
    from reelrl.act.recording.reader import MatchInfo
    from reelrl.runs.folder import Run, RunFolder

WEIGHTS, FORMER_WEIGHTS = "frame-reader.safetensors", "eyes.safetensors"
_AT_ONCE = 256  # pictures, in validation


@dataclass(frozen=True, kw_only=True)
class FrameReaderTraining:
    """What is read, and how it is learned."""

    ALIASES: ClassVar[dict[str, str]] = {"shake": "augmentation"}

    data: str
    map: str | None = None
    """Whose places are learned; None: the one map that the training matches are on."""
    net: FrameReaderSettings = field(default_factory=FrameReaderSettings)
    picture_size: tuple[int, int] | None = (120, 160)
    """Height and width that larger pictures are shrunk to; None: as they were recorded."""
    stride: int = 8
    """Rows from one picture to the next."""
    epochs: int = 4
    batch: int = 128
    lr: float = 2e-3
    """The highest; it rises and falls."""
    weight_decay: float = 0.05
    augmentation: float = 0.04
    """Pictures are moved by up to this share of their width, and made brighter or darker by five times as much."""

    def __post_init__(self) -> None:
        if not 0 <= self.augmentation < 0.2:
            raise ConfigError(f"augmentation is {self.augmentation}; it is a share from 0 to below 0.2")
        for name in ("stride", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not 0 < self.lr < 1:
            raise ConfigError(f"lr is {self.lr}; give a number between 0 and 1")


class FrameReaderTrainer(EpochTrainer):
    """Learns all questions at once; the epoch with the lowest loss on validation matches stays."""

    net: FrameReaderNet

    def __init__(
        self,
        settings: FrameReaderTraining,
        seed: int,
        run: Run,
        frames: dict[str, LabelledFrames],
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__(seed, run, epochs=settings.epochs, patience=settings.epochs, lr=settings.lr)
        self.settings, self.device = settings, torch.device(device)
        self.frames = {split: each.to(device) for split, each in frames.items()}
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # all batches are alike
        seeding.seed_globals(seed)
        self.net = FrameReaderNet(settings.net).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = torch.optim.AdamW(self.net.parameters(), settings.lr, weight_decay=settings.weight_decay)

    def batches(self, rng: np.random.Generator) -> Sequence[NDArray[np.int64]]:
        count = len(self.frames["train"])
        return np.array_split(rng.permutation(count), -(-count // self.settings.batch))

    def loss(self, batch: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        frames = self.frames["train"].take(torch.from_numpy(batch).to(self.device))
        frames = augmented(frames, rng, self.settings.augmentation)
        losses = self._losses(self._look(frames.pictures), frames)
        total = torch.stack(list(losses.values()))
        return total.sum(), {f"loss/{name}": value for name, value in zip(losses, total.detach().tolist(), strict=True)}

    @torch.no_grad()
    def validate(self) -> tuple[float, dict[str, float]]:
        self.net.eval()
        frames, parts, truths, losses, right = self.frames["val"], [], [], 0.0, np.zeros(2)
        for numbers in torch.split(torch.arange(len(frames), device=self.device), _AT_ONCE):
            part = frames.take(numbers)
            said = self._look(part.pictures)
            share = len(numbers) / len(frames)
            losses += share * torch.stack(list(self._losses(said, part).values())).sum().item()
            place = by_place(said["own"]).logsumexp(2).argmax(1)
            right += share * np.array(
                [
                    (place == part.cell.div(OF_A_PLACE, rounding_mode="floor")).float().mean().item(),
                    (said["heading"].argmax(1) == part.heading).float().mean().item(),
                ]
            )
            parts.append(by_place(somebody(said["columns"])).logsumexp(-1).cpu())
            truths.append(by_place(self._truth(part).any(1)).any(-1).cpu())
        answers, truth = torch.cat(parts), torch.cat(truths)  # [N, bodies, places]
        players = self.settings.net.players
        kinds = {"mates": slice(0, players), "enemies": slice(players, None)}
        figures = {
            name: mean_precision(answers[:, kind].logsumexp(1).numpy(), truth[:, kind].any(1).numpy())
            for name, kind in kinds.items()
        }
        figures["who"] = mean_precision(answers.flatten(1).numpy(), truth.flatten(1).numpy())
        figures |= {"place": float(right[0]), "heading": float(right[1]), "loss": losses}
        return -losses, {f"val/{name}": value for name, value in figures.items()}

    def keep_best(self) -> None:
        self.net.save(self.run.new_artifact(WEIGHTS))

    def _look(self, pictures: Tensor) -> dict[str, Tensor]:
        """In half precision where that is faster; what is said is float32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            said = self.net(pictures.contiguous(memory_format=torch.channels_last))
        return {name: each.float() for name, each in said.items()}

    def _truth(self, frames: LabelledFrames) -> Tensor:
        net = self.settings.net
        where = (frames.seen_cell, frames.seen_body, frames.seen_span)
        return on_columns(*where, net.bodies, net.cells, net.columns, net.picture[1])

    def _losses(self, said: dict[str, Tensor], frames: LabelledFrames) -> dict[str, Tensor]:
        """Nats per picture; what is on the screen where are many questions, and add up."""

        def marks(logits: Tensor, truth: Tensor) -> Tensor:
            return binary_cross_entropy_with_logits(logits, truth.float(), reduction="none").flatten(1).sum(1).mean()

        truth = self._truth(frames)
        return {
            "own": cross_entropy(said["own"], frames.cell, ignore_index=-1),
            "heading": cross_entropy(said["heading"], frames.heading, ignore_index=-1),
            "view": marks(said["view"], frames.view),
            "columns": marks(said["columns"], truth),
            "somebody": marks(somebody(said["columns"]), truth.any(1)),
        }


def weights_of(run: RunFolder) -> Path:
    """The net of a run's best epoch, by the name that this version or 0.1 gave the file."""
    today, former = run.artifact(WEIGHTS), run.artifact(FORMER_WEIGHTS)
    return former if former.exists() and not today.exists() else today


def open_labelled_frames(
    settings: FrameReaderTraining, work: Callable[..., Iterable[Seen]] = map
) -> tuple[FrameReaderTraining, dict[str, LabelledFrames]]:
    """The pictures of the training and validation matches, and the settings with a net that fits them.

    Videos are decoded by `work`, a map that may use several processes, and their pictures kept in the cache.
    """
    data = open_matches(settings.data)
    settings = replace(settings, map=label_map(data, settings.map))
    matches = {split: matches_of(data, split, str(settings.map)) for split in ("train", "val")}
    frames = {}
    with Progress("look", sum(map(len, matches.values())), unit="matches") as progress:
        for split, of_split in matches.items():
            seen = []
            for each in work(_look, [(settings, info) for info in of_split]):
                seen.append(each)
                progress.update(1)
            frames[split] = LabelledFrames.of(_store(settings), data, of_split, seen)
    height, width = frames["train"].pictures.shape[2:]
    players, enemies = distinct_bodies(data, matches["train"])
    places = frames["train"].places
    net = replace(settings.net, places=places, players=players, enemies=enemies, picture=(height, width))
    return replace(settings, net=net), frames


def _store(settings: FrameReaderTraining) -> Store:
    return Store(Thumbnails(SampleSettings(frames=1, stride=settings.stride), settings.picture_size))


def _look(task: tuple[FrameReaderTraining, MatchInfo]) -> Seen:
    settings, info = task
    data = open_matches(settings.data)
    try:
        return look(_store(settings), data, info, data.map(str(settings.map)))
    finally:
        data.close()


def augmented(frames: LabelledFrames, rng: np.random.Generator, most: float) -> LabelledFrames:
    """Pictures moved and lit a little differently, each in its own way, so that none is learned by heart; as floats.

    Who is on the screen moves with its picture, or off it.
    """
    if not most:
        return frames
    pictures, device = frames.pictures, frames.pictures.device
    count, _, height, width = pictures.shape
    reach = max(1, round(most * width))

    def drawn(low: float, high: float, *shape: int) -> Tensor:
        return torch.from_numpy(rng.uniform(low, high, (count, *shape)).astype(np.float32)).to(device)

    right, down = drawn(-reach, reach).round().long(), drawn(-reach / 2, reach / 2).round().long()
    rows = (torch.arange(height, device=device) - down[:, None]).clamp(0, height - 1)
    columns = (torch.arange(width, device=device) - right[:, None]).clamp(0, width - 1)
    which = torch.arange(count, device=device)[:, None, None, None]
    colours = torch.arange(3, device=device)[:, None, None]
    moved = pictures[which, colours, rows[:, None, :, None], columns[:, None, None]]
    # Light, and a tint, as being hit reddens the whole screen.
    gain = drawn(1 - 5 * most, 1 + 5 * most, 1, 1, 1) * drawn(1 - 2 * most, 1 + 2 * most, 3, 1, 1)
    return replace(
        frames, pictures=(moved * gain).clamp(0, 255), seen_span=frames.seen_span + right[:, None, None].float()
    )
