"""One net, one data set, one run folder: trained, stopped, continued to the same bits.

    trainer = LocationTrainer(settings, seed, run, scenes)
    trainer.resume()               # to the newest checkpoint, if there is one
    trainer.train(on_epoch)        # raises Interrupted after Ctrl+C or SIGTERM, when all is saved

After each epoch the net answers about the validation matches from one player's view; the best epoch by average
precision is what stays in artifacts/net.safetensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, nll_loss

from reelrl import seeding
from reelrl.act.location.answers import answers, views, watch
from reelrl.act.location.embeddings import Pooling
from reelrl.act.location.epochs import EpochTrainer
from reelrl.act.location.model.net import HEADS, CrossEgoVideoLocationNet
from reelrl.act.location.model.settings import ContrastiveSettings, LocationNetSettings
from reelrl.act.location.samples import SampleSettings, epoch_batches, random_views
from reelrl.act.location.scores import mean_precision
from reelrl.act.location.symmetry import symmetries
from reelrl.act.video.encoder import VideoEncoderSettings
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.location.dataset import Scenes
    from reelrl.act.location.samples import Moments
    from reelrl.act.location.symmetry import Symmetry
    from reelrl.runs.folder import Run

WEIGHTS = "net.safetensors"


def usual_encoder() -> VideoEncoderSettings:
    return VideoEncoderSettings(model_type="effnet-lite0", freeze_backbone=True, image_size=96)


def usual_net() -> LocationNetSettings:
    """As validation matches chose it: agents attend to each other, no contrastive term (docs/results/location.md)."""
    return LocationNetSettings(
        num_places=1, embed_dim=1, fusion="transformer", contrastive=ContrastiveSettings(loss_weight=0.0)
    )


@dataclass(frozen=True, kw_only=True)
class LocationTraining:
    """What is learned from, and how."""

    ALIASES: ClassVar[dict[str, str]] = {"looks": "frames_per_row"}

    data: str
    map: str | None = None
    """Whose places are learned; None: the one map that the training matches are on."""
    samples: SampleSettings = field(default_factory=SampleSettings)
    encoder: VideoEncoderSettings = field(default_factory=usual_encoder)
    """Frozen: frames are encoded once and kept. Not frozen: it learns with the net, from pictures."""
    picture_size: tuple[int, int] | None = None
    """Height and width that pictures are shrunk to before an encoder sees them; None: as they were recorded."""
    frames_per_row: int = 1
    """Frames that a frame reader reads from one row of `samples` to the next."""
    pooling: Pooling = "mean+last"
    """How a frozen encoder's embeddings of frames become one: a clip's mean, the newest, both, or a memory of all."""
    net: LocationNetSettings = field(default_factory=usual_net)
    """Places, agents and what is read come from the data, whatever is written here."""
    epochs: int = 40
    patience: int = 8
    """Epochs without a better one before it ends."""
    matches_per_batch: int = 8
    moments_of_each: int = 8
    answers: int = 1
    """About each moment of a batch, each from the views of other players: cheap, where encoding is dear."""
    by_name: float = 0.05
    """Weight of telling where each body is, beside which places hold somebody; for a net with a memory."""
    turned: float = 0.5
    """Share of batches that such a net sees turned or mirrored, where the map allows it."""
    apart_s: float = 2.0
    """Moments of a match that are nearer in time never meet in a batch."""
    lr: float = 5e-4
    """The highest; it rises and falls."""
    weight_decay: float = 0.05

    def __post_init__(self) -> None:
        for name in ("frames_per_row", "epochs", "patience", "matches_per_batch", "moments_of_each", "answers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("apart_s", "weight_decay", "by_name"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 or more")
        if not 0 <= self.turned <= 1:
            raise ConfigError(f"turned is {self.turned}; it is a share from 0 to 1")
        if not 0 < self.lr < 1:
            raise ConfigError(f"lr is {self.lr}; give a number between 0 and 1")
        if self.picture_size is not None and min(self.picture_size) < 1:
            raise ConfigError(f"picture_size is {self.picture_size}; give height and width in pixels")


def with_memory(settings: LocationTraining) -> LocationTraining:
    """The settings for readings of a frame reader, as validation matches chose them (docs/results/location.md)."""
    net = replace(settings.net, fusion="attention", proj_dim=64, fused_agent_dim=48, hidden_dim=48)
    return replace(
        settings, pooling="memory", frames_per_row=2, net=net, epochs=10, moments_of_each=20, answers=4, lr=2e-3
    )


class LocationTrainer(EpochTrainer):
    """`settings.net` must fit the scenes, as it does in their own settings."""

    net: CrossEgoVideoLocationNet

    def __init__(
        self, settings: LocationTraining, seed: int, run: Run, scenes: Scenes, device: str | torch.device = "cpu"
    ) -> None:
        # Through a memory of hundreds of frames a gradient can become very long.
        steepest = 1.0 if settings.pooling == "memory" else math.inf
        super().__init__(
            seed, run, epochs=settings.epochs, patience=settings.patience, lr=settings.lr, steepest=steepest
        )
        self.settings, self.scenes = settings, scenes
        self.symmetries = symmetries(scenes.plan)
        seeding.seed_globals(seed)
        self.net = CrossEgoVideoLocationNet(settings.net).to(device)
        self.optimiser = torch.optim.AdamW(self.net.parameters(), settings.lr, weight_decay=settings.weight_decay)

    def batches(self, rng: np.random.Generator) -> Sequence[NDArray[np.int64]]:
        return epoch_batches(
            self.scenes.moments["train"],
            rng,
            matches=self.settings.matches_per_batch,
            of_each=self.settings.moments_of_each,
            apart_rows=self.scenes.apart_rows(self.settings.apart_s),
        )

    def loss(self, batch: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        moments = self.scenes.moments["train"].take(batch)
        turned = None
        if self.settings.pooling == "memory" and rng.random() < self.settings.turned:
            turned = self.symmetries[rng.integers(len(self.symmetries))]
        seen = views(self.net, self.scenes.clips["train"], moments, self.settings.pooling, turned)
        losses, by_name = [], []
        for _ in range(self.settings.answers):
            pov = random_views(moments.present, rng, self.settings.net.num_pov_agents)
            output = watch(self.net, seen, moments, pov)
            marks = {head: turned.marks(each) if turned else each for head, each in moments.targets(pov).items()}
            truth = {head: torch.from_numpy(each).float() for head, each in marks.items()}
            losses += [
                binary_cross_entropy_with_logits(logits, truth[head].to(logits.device))
                for head, logits in output.logits.items()
            ]
            if output.bodies is not None:
                by_name.append(where_each_is(output.bodies, moments, turned, self.settings.net.enemies or 0))
        loss = torch.stack(losses).mean()
        figures = {"loss/location": loss.item()}
        if by_name:
            figures["loss/by_name"] = (named := torch.stack(by_name).mean()).item()
            loss = loss + self.settings.by_name * named
        if output.contrastive is not None:
            # Per pair, so that a weight means the same in large batches and in small ones.
            term = output.contrastive.loss / max(len(output.contrastive.logits) - 1, 1)
            loss = loss + self.settings.net.contrastive.loss_weight * term
            figures |= {"loss/contrastive": term.item(), "temperature": output.contrastive.temperature.item()}
        return loss, figures

    def validate(self) -> tuple[float, dict[str, float]]:
        """Average precision from one player's view, the mean over heads."""
        moments, pov = self.scenes.moments["val"].single_views()
        said = answers(self.net, self.scenes.clips["val"], moments, self.settings.pooling, pov)
        truth = moments.targets(pov)
        by_head = {f"val/{head}": mean_precision(said[head], truth[head]) for head in HEADS}
        score = sum(by_head.values()) / len(by_head)
        return score, by_head | {"val/precision": score}

    def keep_best(self) -> None:
        self.net.save(self.run.new_artifact(WEIGHTS))


def where_each_is(said: Tensor, moments: Moments, turned: Symmetry | None, enemies: int) -> Tensor:
    """Nats per body; said is as in `LocationOutput.bodies`. One enemy stands for all, wherever they are: not asked."""
    named, places = enemies if enemies > 1 else 0, said.shape[2] - 1
    now = (moments.player_places, moments.enemy_places)
    ahead = (moments.player_places_ahead, moments.enemy_places_ahead)
    losses = []
    for when, (ours, theirs) in enumerate((now, ahead)):
        where = np.concatenate([ours, theirs[:, :named]], axis=1)
        where = turned.moved(where) if turned else where
        truth = torch.from_numpy(np.where(where < 0, places, where)).to(said.device)
        losses.append(nll_loss(said[:, : truth.shape[1], :, when].flatten(0, 1), truth.flatten()))
    return torch.stack(losses).mean()
