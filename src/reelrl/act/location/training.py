"""One net, one data set, one run folder: trained, stopped, continued to the same bits.

    trainer = LocationTrainer(settings, seed, run, scenes)
    trainer.resume()               # to the last whole epoch, if there is one
    trainer.train(on_epoch)        # "done" or "stopped" (Ctrl+C)

After each epoch the net answers about the validation matches through one player's eyes; the best epoch by average
precision is what stays in artifacts/net.safetensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from reelrl import seeding
from reelrl.act import state_tree
from reelrl.act.location.answers import answers, watch
from reelrl.act.location.batches import epoch_batches, random_views
from reelrl.act.location.embeddings import Pooling
from reelrl.act.location.net import HEADS, CrossEgoVideoLocationNet
from reelrl.act.location.net_settings import LocationNetSettings
from reelrl.act.location.precision import mean_precision
from reelrl.act.location.samples import SampleSettings
from reelrl.act.video_encoder import VideoEncoderSettings
from reelrl.checkpoints import Checkpoints
from reelrl.errors import CheckpointError, ConfigError, InvalidStateError
from reelrl.interrupts import first_interrupt_asks

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from reelrl.act.location.scenes import Scenes
    from reelrl.runs import Run

Outcome = Literal["done", "stopped"]
WEIGHTS = "net.safetensors"


def usual_encoder() -> VideoEncoderSettings:
    return VideoEncoderSettings(model_type="effnet-lite0", freeze_backbone=True, image_size=96)


def usual_net() -> LocationNetSettings:
    return LocationNetSettings(num_places=1, embed_dim=1)


@dataclass(frozen=True, kw_only=True)
class LocationTraining:
    """What is learned from, and how."""

    data: str
    map: str | None = None
    """Whose places are learned; None: the one map that the training matches are on."""
    samples: SampleSettings = field(default_factory=SampleSettings)
    encoder: VideoEncoderSettings = field(default_factory=usual_encoder)
    """Frozen: frames are encoded once and kept. Not frozen: it learns with the net, from pictures."""
    picture_size: tuple[int, int] | None = None
    """Height and width that pictures are shrunk to before an encoder sees them; None: as they were recorded."""
    encoder_frames: int | None = None
    """Frames that a frozen encoder sees at once; None: one, or the whole clip, as its kind does."""
    pooling: Pooling = "mean+last"
    """How a frozen encoder's embeddings of a clip's frames become one: their mean, the newest, or both."""
    net: LocationNetSettings = field(default_factory=usual_net)
    """Places, agents and what is read come from the data, whatever is written here."""
    epochs: int = 40
    patience: int = 8
    """Epochs without a better one before it ends."""
    matches_per_batch: int = 8
    moments_of_each: int = 8
    apart_s: float = 2.0
    """Moments of a match that are nearer in time never meet in a batch."""
    lr: float = 5e-4
    weight_decay: float = 0.05
    keep: int = 2
    """Checkpoints that stay."""

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "matches_per_batch", "moments_of_each", "keep"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("apart_s", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 or more")
        if self.encoder_frames is not None and self.encoder_frames < 1:
            raise ConfigError(f"encoder_frames is {self.encoder_frames}; give 1 or more")
        if not 0 < self.lr < 1:
            raise ConfigError(f"lr is {self.lr}; give a number between 0 and 1")
        if self.picture_size is not None and min(self.picture_size) < 1:
            raise ConfigError(f"picture_size is {self.picture_size}; give height and width in pixels")


class LocationTrainer:
    """Learns in a run folder. `settings.net` must fit the scenes, as `Scenes.fit` makes it."""

    def __init__(
        self, settings: LocationTraining, seed: int, run: Run, scenes: Scenes, device: str | torch.device = "cpu"
    ) -> None:
        self.settings, self.seed, self.run, self.scenes = settings, seed, run, scenes
        run.checkpoints = Checkpoints(run.checkpoints.folder, keep=settings.keep)
        seeding.seed_globals(seed)
        self.net = CrossEgoVideoLocationNet(settings.net).to(device)
        self.optimiser = torch.optim.AdamW(self.net.parameters(), settings.lr, weight_decay=settings.weight_decay)
        self.epoch = 0
        self.best_epoch, self.best_score = 0, -math.inf
        self.figures: dict[str, float] = {}
        """Of the last epoch."""
        self._stop_asked = False

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs or self.epoch - self.best_epoch >= self.settings.patience

    def resume(self) -> bool:
        """Go back to the end of the last whole epoch, if there was one."""
        saved = self.run.resume()
        if saved is None:
            return False
        try:
            state = state_tree.join(saved.tensors, saved.state["training"])
            self.net.load_state_dict(state["net"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.best_epoch, self.best_score = state["best_epoch"], state["best_score"]
            seeding.restore_globals(saved.state["chance"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0].rstrip(":")
            raise CheckpointError(f"{saved.folder} does not fit this training ({reason}); use its own run") from error
        self.epoch = saved.step
        return True

    def train(
        self,
        on_epoch: Callable[[], None] = lambda: None,
        on_batch: Callable[[int], None] = lambda _: None,
        on_interrupt: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Learn until nothing gets better; `on_batch` hears how many moments were in it.

        The first Ctrl+C ends it after the batch under way; resumed, the epoch begins again.
        """

        def stop() -> None:
            self._stop_asked = True
            on_interrupt()

        with first_interrupt_asks(stop):
            while not self.finished:
                if not self.learn_epoch(on_batch):
                    return "stopped"
                self._validate()
                self._save()
                on_epoch()
        return "done"

    def learn_epoch(self, on_batch: Callable[[int], None] = lambda _: None) -> bool:
        """One epoch; False if somebody asked to stop."""
        settings, moments = self.settings, self.scenes.moments["train"]
        # From seed and epoch alone, so that an epoch that was cut short begins again as it began.
        rng = seeding.stream(self.seed, "epoch", self.epoch)
        batches = epoch_batches(
            moments,
            rng,
            matches=settings.matches_per_batch,
            of_each=settings.moments_of_each,
            apart_rows=self.scenes.apart_rows(settings.apart_s),
        )
        sums: dict[str, float] = {}
        self.net.train()
        for batch in batches:
            for name, value in self._step(batch, rng).items():
                sums[name] = sums.get(name, 0.0) + value / len(batches)
            on_batch(len(batch))
            if self._stop_asked:
                return False
        self.epoch += 1
        self.figures = sums
        return True

    def _step(self, batch: NDArray[np.int64], rng: np.random.Generator) -> dict[str, float]:
        moments = self.scenes.moments["train"].take(batch)
        pov = random_views(moments.present, rng)
        output = watch(self.net, self.scenes.clips["train"], moments, self.settings.pooling, pov)
        targets = moments.targets(pov)
        location = torch.stack(
            [
                binary_cross_entropy_with_logits(
                    output.logits[head], torch.from_numpy(targets[head]).to(output.logits[head])
                )
                for head in HEADS
            ]
        ).mean()
        loss, figures = location, {"loss/location": location.item()}
        if output.contrastive is not None:
            term = output.contrastive.loss
            loss = loss + self.settings.net.contrastive.loss_weight * term
            figures |= {"loss/contrastive": term.item(), "temperature": output.contrastive.temperature.item()}
        if not math.isfinite(loss.item()):
            raise InvalidStateError(
                f"the loss is {loss.item()} in epoch {self.epoch + 1}: the learning went astray; "
                "resume with a smaller --set lr"
            )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return figures

    def _validate(self) -> None:
        moments, pov = self.scenes.moments["val"].single_views()
        said = answers(self.net, self.scenes.clips["val"], moments, self.settings.pooling, pov)
        truth = moments.targets(pov)
        by_head = {head: mean_precision(said[head], truth[head]) for head in HEADS}
        score = sum(by_head.values()) / len(by_head)
        self.figures |= {f"val/{head}": value for head, value in by_head.items()} | {"val/precision": score}
        if score > self.best_score:
            self.best_epoch, self.best_score = self.epoch, score
            self.net.save(self.run.artifacts / WEIGHTS)
        self.run.log_metrics(self.epoch, self.figures)

    def _save(self) -> None:
        tree = {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
        }
        arrays, plain = state_tree.split(tree)
        self.run.checkpoint(self.epoch, arrays, {"training": plain, "chance": seeding.capture_globals()})
