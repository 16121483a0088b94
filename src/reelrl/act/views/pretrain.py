"""Pretraining of a view's encoder: on views of mates who watch the same moment, without labels.

    trainer = ViewsTrainer(settings, seed, run, views)
    trainer.resume()               # to the newest checkpoint, if there is one
    trainer.train(on_epoch)        # raises Interrupted after Ctrl+C or SIGTERM, when all is saved

A batch holds moments of many matches, those of one match some seconds apart. Two other objectives train the same
encoder on the same pictures, to compare with. The epoch with the lowest loss on validation matches stays in
artifacts/views.safetensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from reelrl import seeding
from reelrl.act.location.dataset import label_map
from reelrl.act.location.embeddings import Clips, Store
from reelrl.act.location.epochs import EpochTrainer
from reelrl.act.location.model.contrastive_loss import CrossEgoContrastive, softmax_loss
from reelrl.act.location.row_encoders import Thumbnails
from reelrl.act.location.samples import Moments, SampleSettings, epoch_batches
from reelrl.act.recording.xego import open_matches
from reelrl.act.views.augmentation import AugmentationSettings, augmented
from reelrl.act.views.net import ViewNet, ViewNetSettings
from reelrl.act.views.questions import Questions, labelled
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.recording.reader import Matches, MatchInfo
    from reelrl.runs.folder import Run

WEIGHTS = "views.safetensors"
LEAST = {"train": 2, "val": 1}
"""Matches that a split must have."""


@dataclass(frozen=True, kw_only=True)
class ViewsTraining:
    """What is learned from, and how."""

    data: str
    map: str | None = None
    """Learn from matches on this map alone; None: on all maps that have training matches."""
    net: ViewNetSettings = field(default_factory=ViewNetSettings)
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)
    stride: int = 4
    """Rows from one picture to the next."""
    epochs: int = 8
    matches_per_batch: int = 6
    moments_of_each: int = 8
    apart_s: float = 2.0
    """Moments of a match that are nearer in time never meet in a batch: they show nearly the same."""
    own_view: float = 1.0
    """Weight of finding a view itself, augmented otherwise, beside finding those of mates: of net.objective=contrastive
    alone. 0: views of mates are all there is to find, and each is in a batch once."""
    labels: float = 1.0
    """Share of the training moments whose labels may be used, for net.objective=labels alone."""
    lr: float = 2e-3
    """The highest; it rises and falls."""
    weight_decay: float = 0.05

    def __post_init__(self) -> None:
        for name in ("stride", "epochs", "matches_per_batch", "moments_of_each"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("apart_s", "weight_decay", "own_view"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 or more")
        if not 0 < self.labels <= 1:
            raise ConfigError(f"labels is {self.labels}; it is a share above 0, 1 at most")
        if not 0 < self.lr < 1:
            raise ConfigError(f"lr is {self.lr}; give a number between 0 and 1")

    @property
    def samples(self) -> SampleSettings:
        """Single rows; nothing ahead is asked about."""
        return SampleSettings(frames=1, stride=self.stride, ahead_s=1e-9)


class TrainingViews:
    """The pictures of training and validation matches, with labels where the objective is to learn them."""

    def __init__(self, settings: ViewsTraining) -> None:
        self.data = open_matches(settings.data)
        by_labels = settings.net.objective == "labels"
        map_name = label_map(self.data, settings.map) if by_labels or settings.map else None
        matches = {split: _matches(self.data, split, map_name, needs_labels=by_labels) for split in LEAST}
        self.unlabelled = sum(not info.labelled for of_split in matches.values() for info in of_split)
        self.moments = {split: Moments.of(self.data, each, settings.samples, None) for split, each in matches.items()}
        for split, moments in self.moments.items():
            self.moments[split] = moments.take(moments.present.sum(1) > 1)
            if not len(self.moments[split]):
                raise ContentError(
                    f"no moment of split {split!r} in {self.data.folder} is seen by two players or more, and mates' "
                    "views are what is learned from; collect matches with --players 2 or more"
                )
        store = Store(Thumbnails(settings.samples, settings.net.picture))
        self.clips = {split: Clips.of(self.data, moments.matches, store) for split, moments in self.moments.items()}
        picture = self.clips["train"].clip_shape[2:]
        net = replace(settings.net, picture=picture)
        self.questions: dict[str, Questions] = {}
        if by_labels:
            plan = self.data.map(str(map_name))
            self.questions = {split: Questions.of(self.data, each, plan) for split, each in self.moments.items()}
            net = replace(net, questions=math.prod(self.questions["train"].truth.shape[2:]))
        self.settings = replace(settings, net=net, map=map_name)

    def apart_rows(self) -> int:
        """Rows between moments of a match that may meet, as a whole number of strides."""
        stride = self.settings.stride
        return max(1, math.ceil(self.settings.apart_s * self.data.rows_per_second / stride)) * stride


class ViewsTrainer(EpochTrainer):
    """`settings.net` must fit the views, as it does in their own settings."""

    net: ViewNet

    def __init__(
        self, settings: ViewsTraining, seed: int, run: Run, views: TrainingViews, device: str | torch.device = "cpu"
    ) -> None:
        super().__init__(seed, run, epochs=settings.epochs, patience=settings.epochs, lr=settings.lr)
        self.settings, self.views, self.device = settings, views, torch.device(device)
        seeding.seed_globals(seed)
        # Pictures pixel by pixel: convolutions are faster so, on cores and on GPUs.
        self.net = ViewNet(settings.net).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = torch.optim.AdamW(self.net.parameters(), settings.lr, weight_decay=settings.weight_decay)
        self._may_teach = np.zeros(len(views.moments["train"]), bool)
        self._may_teach[labelled(len(self._may_teach), settings.labels, seed)] = True

    def batches(self, rng: np.random.Generator) -> Sequence[NDArray[np.int64]]:
        return self._batches("train", rng)

    def loss(self, batch: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        pictures, present = self._pictures("train", batch)
        seen = augmented(pictures.repeat(self._times, 1, 1, 1), rng, self.settings.augmentation)
        loss, figures = self._judge("train", batch, pictures, seen, present, self._may_teach[batch])
        return loss, {"loss": loss.item()} | figures

    @torch.no_grad()
    def validate(self) -> tuple[float, dict[str, float]]:
        """The loss on validation matches, in batches that are the same every time.

        Pictures are as they are, unless each is to be found in another version of itself.
        """
        self.net.eval()
        rng = np.random.default_rng(0)
        batches = self._batches("val", rng)
        sums: dict[str, float] = {}
        for batch in batches:
            pictures, present = self._pictures("val", batch)
            seen = pictures
            if self._times > 1:
                seen = augmented(pictures.repeat(self._times, 1, 1, 1), rng, self.settings.augmentation)
            loss, figures = self._judge("val", batch, pictures, seen, present, np.ones(len(batch), bool))
            for name, value in ({"loss": loss.item()} | figures).items():
                sums[name] = sums.get(name, 0.0) + value / len(batches)
        return -sums["loss"], {f"val/{name}": value for name, value in sums.items()}

    def keep_best(self) -> None:
        self.net.save(self.run.new_artifact(WEIGHTS))

    @property
    def _times(self) -> int:
        """How often a view is in a batch."""
        return 2 if self.settings.net.objective == "contrastive" and self.settings.own_view > 0 else 1

    def _batches(self, split: str, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        return epoch_batches(
            self.views.moments[split],
            rng,
            matches=self.settings.matches_per_batch,
            of_each=self.settings.moments_of_each,
            apart_rows=self.views.apart_rows(),
        )

    def _pictures(self, split: str, batch: NDArray[np.int64]) -> tuple[Tensor, NDArray[np.bool_]]:
        """Pictures [N, 3, height, width] of those present [moments, agents]."""
        moments = self.views.moments[split].take(batch)
        video = self.views.clips[split].video(moments)[torch.from_numpy(moments.present)]
        return video[:, 0].to(self.device), moments.present

    def _judge(
        self,
        split: str,
        batch: NDArray[np.int64],
        pictures: Tensor,
        seen: Tensor,
        present: NDArray[np.bool_],
        may_teach: NDArray[np.bool_],
    ) -> tuple[Tensor, dict[str, float]]:
        """The loss of a batch, and figures to tell: `seen` is what the encoder gets of the `pictures`."""
        embeddings, head = self.net.embed(seen.contiguous(memory_format=torch.channels_last)), self.net.head
        if isinstance(head, CrossEgoContrastive):
            return self._contrast(head, embeddings, torch.from_numpy(np.nonzero(present)[0]).to(self.device))
        if self.settings.net.objective == "reconstruction":
            return mse_loss(head(embeddings), pictures.float() / 255), {}
        questions = self.views.questions[split]
        taught = torch.from_numpy((questions.known[batch] & may_teach[:, None])[present]).to(self.device)
        truth = torch.from_numpy(questions.truth[batch][present]).flatten(1).float().to(self.device)
        losses = binary_cross_entropy_with_logits(head(embeddings), truth, reduction="none").mean(1)
        return (losses * taught).sum() / taught.sum().clamp(min=1), {}

    def _contrast(
        self, head: CrossEgoContrastive, embeddings: Tensor, moment: Tensor
    ) -> tuple[Tensor, dict[str, float]]:
        """Views of mates come together; and, where each view is here twice, both of it."""
        times = len(embeddings) // len(moment)
        view = torch.arange(len(moment), device=moment.device).repeat(times)
        moment = moment.repeat(times)
        itself = view[:, None] == view
        output = head(embeddings, moment, itself)
        # A row's sum over pairs is told per pair: it means the same in large batches and in small ones.
        pairs = max(len(moment) - 1, 1) if self.settings.net.loss == "sigmoid" else 1
        loss, figures = output.loss / pairs, {"top1": output.retrieval.top1, "mates": output.loss.item() / pairs}
        if times > 1:
            mates = (moment[:, None] == moment) & ~itself  # neither right nor wrong, where the view itself is asked for
            own = softmax_loss(output.logits, view, leave_out=mates)
            loss, figures["own"] = loss + self.settings.own_view * own, own.item()
        return loss, figures


def _matches(data: Matches, split: str, map_name: str | None, *, needs_labels: bool) -> list[MatchInfo]:
    there = [info for info in data.matches if info.split == split and map_name in {None, info.map}]
    matches = [info for info in there if info.labelled or not needs_labels]
    if len(matches) < LEAST[split]:
        lost = f" ({len(there) - len(matches)} more have no labels)" if len(there) > len(matches) else ""
        raise ContentError(
            f"{data.folder} has {len(matches)} of the {LEAST[split]} or more matches of split {split!r} that are "
            f"needed{lost}; four matches have both: reel collect doom --matches 4 -o {data.folder}"
        )
    return matches
