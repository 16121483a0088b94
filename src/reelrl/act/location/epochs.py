"""Learning epoch by epoch in a run folder: watched, stopped, continued to the same bits; the best epoch stays.

A trainer says what its batches are, what a step is, and how good the net is on validation matches. Chance is drawn from
the seed and the epoch's number, and saved where a library keeps its own: an epoch that was cut short begins again as it
began.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from torch.nn.utils import clip_grad_norm_

from reelrl import seeding
from reelrl.act import state_tree
from reelrl.checkpoints import Checkpoints
from reelrl.errors import CheckpointError, InvalidStateError
from reelrl.interrupts import first_interrupt_asks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.runs import Run

Outcome = Literal["done", "stopped"]
KEEP = 2  # checkpoints
_WARM_UP = 0.1  # share of all steps in which the learning rate rises


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
        self._stop_asked = False

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
    def finished(self) -> bool:
        return self.epoch >= self.epochs or self.epoch - self.best_epoch >= self.patience

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
        """Learn until nothing gets better; `on_batch` hears how many samples were in it.

        The first Ctrl+C ends it after the batch under way; resumed, the epoch begins again.
        """

        def stop() -> None:
            self._stop_asked = True
            on_interrupt()

        with first_interrupt_asks(stop):
            while not self.finished:
                if not self.learn_epoch(on_batch):
                    return "stopped"
                score, figures = self.validate()
                self.figures |= figures
                if score > self.best_score:
                    self.best_epoch, self.best_score = self.epoch, score
                    self.keep_best()
                self.run.log_metrics(self.epoch, self.figures)
                self._save()
                on_epoch()
        return "done"

    def learn_epoch(self, on_batch: Callable[[int], None] = lambda _: None) -> bool:
        """One epoch; False if somebody asked to stop before its end."""
        rng = seeding.stream(self.seed, "epoch", self.epoch)
        batches = self.batches(rng)
        sums: dict[str, float] = {}
        self.net.train()
        for number, batch in enumerate(batches, 1):
            for group in self.optimiser.param_groups:
                group["lr"] = self.lr * schedule((self.epoch + number / len(batches)) / self.epochs)
            for name, value in self._step(batch, rng).items():
                sums[name] = sums.get(name, 0.0) + value / len(batches)
            on_batch(len(batch))
            if self._stop_asked:
                return False
        self.epoch += 1
        self.figures = sums
        return True

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

    def _save(self) -> None:
        tree = {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
        }
        arrays, plain = state_tree.split(tree)
        self.run.checkpoint(self.epoch, arrays, {"training": plain, "chance": seeding.capture_globals()})


def schedule(share: float) -> float:
    """The learning rate as a share of the highest, after a share of all steps."""
    if share < _WARM_UP:
        return share / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP)))
