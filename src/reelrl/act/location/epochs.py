"""Learning epoch by epoch in a run folder: watched, stopped, continued to the same bits; the best epoch stays.

A trainer says what its batches are, what a step is, and how good the net is on validation matches. Chance is drawn from
the seed and the epoch's number, and saved where it stands: an epoch that was cut short goes on with its next batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.nn.utils import clip_grad_norm_

from reelrl import seeding
from reelrl.agents import state_tree
from reelrl.errors import InvalidStateError
from reelrl.runs.checkpoints import Checkpoints, restoring
from reelrl.runs.saving import Saving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.runs.folder import Run

KEEP = 2  # checkpoints
_WARM_UP = 0.1  # share of all steps in which the learning rate rises


@dataclass
class Epoch:
    """How far an epoch is: batches learned from, the sums of their figures, and where its chance stands."""

    rng: np.random.Generator
    batches: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def export(self) -> dict[str, Any]:
        return {"batches": self.batches, "sums": self.sums, **seeding.capture(self.rng)}


class EpochTrainer(ABC):
    """`epochs` at most, and not more than `patience` without a better one.

    `lr` is the highest learning rate: it rises during the first tenth of the steps and then falls to nothing.
    `steepest` is how long a gradient may be; a longer one is shortened.
    """

    net: torch.nn.Module
    optimiser: torch.optim.Optimizer

    def __init__(
        self, seed: int, run: Run, *, epochs: int, patience: int, lr: float, steepest: float = math.inf
    ) -> None:
        self.seed, self.run, self.epochs, self.patience = seed, run, epochs, patience
        self.lr, self.steepest = lr, steepest
        run.checkpoints = Checkpoints(run.checkpoints.folder, keep=KEEP)
        self.epoch = 0
        self.best_epoch, self.best_score = 0, -math.inf
        self.figures: dict[str, float] = {}
        """Of the last epoch."""
        self._begun: dict[str, Any] = {}
        """The epoch that a checkpoint was saved in the middle of."""

    @abstractmethod
    def batches(self, rng: np.random.Generator) -> Sequence[NDArray[np.int64]]:
        """Numbers of the samples that are learned from together, for one epoch."""

    @abstractmethod
    def loss(self, batch: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        """Of a batch, and figures to tell."""

    @abstractmethod
    def validate(self) -> tuple[float, dict[str, float]]:
        """How good the net is, the higher the better, and figures to tell."""

    @abstractmethod
    def keep_best(self) -> None:
        """Write the net to the run's artifacts."""

    @property
    def place(self) -> str:
        """Where the training stands, in words."""
        return f"epoch {self.epoch}" + (f" and {self._begun['batches']} batches" if self._begun else "")

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs or self.epoch - self.best_epoch >= self.patience

    def resume(self) -> bool:
        """Go back to the newest checkpoint, if there is one."""
        saved = self.run.resume()
        if saved is None:
            return False
        with restoring(saved.folder):
            state = state_tree.join(saved.tensors, saved.state["training"])
            self.net.load_state_dict(state["net"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.best_epoch, self.best_score = state["best_epoch"], float(state["best_score"])
            seeding.restore_globals(saved.state["chance"])
            self._begun = saved.state.get("epoch", {})
        self.epoch = saved.step
        return True

    def train(
        self,
        on_epoch: Callable[[], None] = lambda: None,
        on_batch: Callable[[int], None] = lambda _: None,
        saving: Saving | None = None,
    ) -> None:
        """Learn until nothing gets better; `on_batch` hears how many samples were in it.

        An interrupt ends it after the batch under way.
        """
        with saving or Saving() as saving:
            while not self.finished:
                self.learn_epoch(on_batch, saving)
                score, figures = self.validate()
                self.figures |= figures
                if score > self.best_score:
                    self.best_epoch, self.best_score = self.epoch, score
                    self.keep_best()
                self.run.log_metrics(self.epoch, self.figures)
                on_epoch()
                saving.reached(f"epoch {self.epoch}", self._save, due=True, last=self.finished)

    def learn_epoch(self, on_batch: Callable[[int], None] = lambda _: None, saving: Saving | None = None) -> None:
        """One epoch, or the rest of the one that was begun."""
        saving = saving or Saving()
        epoch = Epoch(seeding.stream(self.seed, "epoch", self.epoch))
        batches = self.batches(epoch.rng)
        if self._begun:
            epoch = Epoch(seeding.restore(self._begun), self._begun["batches"], self._begun["sums"])
            self._begun = {}
        self.net.train()
        for batch in batches[epoch.batches :]:
            epoch.batches += 1
            for group in self.optimiser.param_groups:
                group["lr"] = self.lr * schedule((self.epoch + epoch.batches / len(batches)) / self.epochs)
            for name, value in self._step(batch, epoch.rng).items():
                epoch.sums[name] = epoch.sums.get(name, 0.0) + value / len(batches)
            on_batch(len(batch))
            if epoch.batches < len(batches):  # the last one's is saved with what validation says
                place = f"epoch {self.epoch + 1}, batch {epoch.batches} of {len(batches)}"
                saving.reached(place, lambda: self._save(epoch))
        self.epoch += 1
        self.figures = epoch.sums

    def _step(self, batch: NDArray[np.int64], rng: np.random.Generator) -> dict[str, float]:
        loss, figures = self.loss(batch, rng)
        if not math.isfinite(loss.item()):
            raise InvalidStateError(
                f"the loss is {loss.item()} in epoch {self.epoch + 1}: the learning went astray; "
                "resume with a smaller --set lr"
            )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.steepest < math.inf:
            clip_grad_norm_(self.net.parameters(), self.steepest)
        self.optimiser.step()
        return figures

    def _save(self, begun: Epoch | None = None) -> None:
        tree = {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
        }
        arrays, plain = state_tree.split(tree)
        state = {"training": plain, "chance": seeding.capture_globals(), "epoch": begun.export() if begun else {}}
        self.run.checkpoint(self.epoch, arrays, state)


def schedule(share: float) -> float:
    """The learning rate as a share of the highest, after a share of all steps."""
    if share < _WARM_UP:
        return share / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP)))
