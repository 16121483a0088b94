"""How a training by epochs is told: on a terminal by the bar, elsewhere by a line per epoch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from reelrl.cli import output
from reelrl.progress import Progress, duration

if TYPE_CHECKING:
    from reelrl.act.location.epochs import EpochTrainer


def train_and_tell(trainer: EpochTrainer, samples: int, unit: str, figures: dict[str, str]) -> str:
    """Train to the end or to Ctrl+C; `samples` are in an epoch, `figures` are word -> name of what is told."""
    epochs = trainer.epochs
    with Progress("train", (epochs - trainer.epoch) * samples, unit=unit) as progress:

        def epoch() -> None:
            told = {word: trainer.figures[name] for word, name in figures.items() if name in trainer.figures}
            progress.figures |= told
            if sys.stderr.isatty():
                return
            left = duration((epochs - trainer.epoch) * samples / max(progress.rate, 1e-9))
            values = [f"{word} {value:.4f}" for word, value in told.items()]
            output.line("epoch", f"{trainer.epoch} / {epochs}", *values, f"at most {left} left")

        def interrupt() -> None:
            if sys.stderr.isatty():
                print(file=sys.stderr)
            output.line("stop", "after this batch", "Ctrl+C again stops at once")

        return trainer.train(epoch, progress.update, interrupt)
