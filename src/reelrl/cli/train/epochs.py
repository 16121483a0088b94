"""How a training by epochs is told: on a terminal by the bar, elsewhere by a line per epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.cli.train.command import Report

if TYPE_CHECKING:
    from reelrl.act.location.epochs import EpochTrainer


def train_and_tell(
    trainer: EpochTrainer, samples: int, unit: str, figures: dict[str, str], save_every_s: float
) -> None:
    """Train to the end; `samples` are in an epoch, `figures` are word -> name of what is told."""
    epochs = trainer.epochs
    with Report(epochs * samples, unit=unit) as report:
        report.begin(trainer.epoch * samples)

        def epoch() -> None:
            shown = {word: trainer.figures[name] for word, name in figures.items() if name in trainer.figures}
            report.moved(trainer.epoch * samples, **shown)
            if report.by_lines:
                values = [f"{word} {value:.4f}" for word, value in shown.items()]
                report.line("epoch", f"{trainer.epoch} / {epochs}", *values, f"at most {report.left}")

        def batch(size: int) -> None:
            report.moved(report.done + size)

        trainer.train(epoch, batch, report.saving(save_every_s, "batch"))
