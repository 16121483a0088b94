"""The shape that all train commands share: settings, or those of a resumed run; its folder; how it goes; its end.

    settings, seed = training.resumed(args, STAGE, AbrTraining) or (settings_from(args), args.seed)
    with training.in_run(STAGE, settings, seed, root=args.output_dir, resume=args.resume, name="abr-ppo") as run:
        with training.Report(settings.steps, unit="steps") as report:
            trainer.train(run, report.moved, report.saving(args.save_every, "update"))
    training.conclude(args, run, "reel evaluate ...")

Ctrl+C and SIGTERM: the training saves and raises `Interrupted`, `in_run` says so, `main` returns 130.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self, TypeVar

from reelrl.cli import options, output
from reelrl.errors import ConfigError, RunError
from reelrl.runs.interrupts import Interrupted
from reelrl.runs.progress import Progress, duration, spaced
from reelrl.runs.saving import EVERY_S, Saving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import torch
    from _typeshed import DataclassInstance

    from reelrl.act.location.epochs import EpochTrainer
    from reelrl.runs.folder import Run
    from reelrl.runs.progress import Mode

    T = TypeVar("T", bound=DataclassInstance)

LINES = 20  # of progress, where there is no terminal to draw a bar on


def add_arguments(parser: argparse.ArgumentParser, *, but_for: str = "") -> None:
    """`--output-dir`, `--seed`, `--resume` and `--save-every`; `but_for` is what a resumed run takes anew."""
    add = parser.add_argument
    add("--output-dir", default="runs", metavar="FOLDER", help="where runs go (default runs)")
    options.add_seed(parser)
    held = f"its own settings and seed hold{f', but for {but_for}' if but_for else ''}"
    add("--resume", metavar="RUN", help=f"continue this run; {held}")
    add(
        "--save-every",
        type=_seconds,
        default=EVERY_S,
        metavar="S",
        help=f"seconds from one checkpoint to the next at most, 0 or more, or inf (default {EVERY_S:g})",
    )
    options.add_json(parser)


def resumed(args: argparse.Namespace, stage: str, cls: type[T]) -> tuple[T, int] | None:
    """Settings and seed of the run to resume, which must be of this stage; None where a new one begins."""
    from reelrl.runs.folder import RunFolder
    from reelrl.runs.stages import stage_of

    if not args.resume:
        return None
    folder = RunFolder(args.resume)
    if folder.stage != stage:
        train = stage_of(folder.stage, folder.folder).train
        raise ConfigError(
            f"{folder.folder} is a run of `reel {train}`; resume it with: reel {train} --resume {args.resume}"
        )
    return folder.settings(cls), folder.seed


def device_of(args: argparse.Namespace) -> torch.device:
    """Where to learn, and on how many threads: as `--device` and `--threads` say, else as the resumed run did."""
    from reelrl.agents.devices import use_device
    from reelrl.runs.folder import RunFolder

    # Sums over other numbers of threads, or on another device, differ in the last bit.
    before = RunFolder(args.resume).meta["facts"] if args.resume else {}
    return use_device(
        args.device or before.get("device"), before.get("threads", 1) if args.threads is None else args.threads
    )


@contextmanager
def in_run(
    stage: str,
    settings: DataclassInstance,
    seed: int,
    *,
    root: str | Path,
    resume: str | Path | None,
    name: str,
    facts: Mapping[str, Any] | None = None,
    tensorboard: bool = True,
    quiet: bool = False,
) -> Iterator[Run]:
    """The run to train in: the one to resume, else a new one. An interrupt within tells what was saved, and goes on."""
    from reelrl.runs.folder import Run

    if resume:
        run = Run.open(resume, tensorboard=tensorboard)
    else:
        run = Run.create(root, settings, stage=stage, name=name, seed=seed, facts=facts, tensorboard=tensorboard)
    with run:
        if resume:
            run.mark_ended(None)
        try:
            yield run
        except KeyboardInterrupt as stop:  # the first is `Interrupted`, after a save; the second comes as it is
            run.mark_ended("stopped")
            if not quiet:
                _say_stopped(run, stop)
            raise
        except Exception:
            with suppress(RunError):  # a full disk: the first error is the one to tell
                run.mark_ended("failed")
            raise
        run.mark_ended("done")


def _say_stopped(run: Run, stop: KeyboardInterrupt) -> None:
    if isinstance(stop, Interrupted):
        output.line("stopped", stop, "saved")
    else:
        saved = run.checkpoints.all()
        output.line("stopped", "at once", f"the last checkpoint is {saved[-1].name}" if saved else "nothing was saved")
    from reelrl.runs.stages import stage_of

    output.next_command(f"reel {stage_of(run.stage, run.folder).train} --resume {run.folder}")


def conclude(args: argparse.Namespace, folder: Path, command: str) -> None:
    """The last line of a training: what to run next; with `--json` also the run, as `reel runs --json` lists it."""
    from reelrl.runs.overview import overview

    if command:
        output.next_command(command)
    if args.json:
        output.as_json(asdict(overview(folder)))


def say_resumed(place: str | None) -> None:
    """Where a resumed run goes on; None is the beginning."""
    output.line("resume", place or "the beginning: nothing was saved yet")


class Report:
    """Tells a person how a training goes: on a terminal by the bar, elsewhere by lines.

    `total` and `done` count from the run's beginning; `by_lines` says whether there is no bar.
    """

    def __init__(self, total: int, *, unit: str, label: str = "train", mode: Mode = "auto") -> None:
        self.total, self.unit = total, unit
        self.by_lines = not sys.stderr.isatty()
        self.progress = Progress(label, unit=unit, mode="off" if self.by_lines else mode)
        self.begin(0)

    def begin(self, done: int) -> None:
        """Count from where a resumed run stands."""
        self.done, self.progress.total = done, self.total - done
        self._lines = done * LINES // max(self.total, 1)

    def moved(self, done: int, **figures: object) -> None:
        """So much is done in all; `figures` are shown behind the bar."""
        self.progress.update(done - self.done, **figures)
        self.done = done

    def line_due(self) -> bool:
        """Whether it is time for a line in a log: one each twentieth of the whole."""
        # By the share done and not by the clock: a log has twenty lines, whether a run takes a minute or a day.
        before, self._lines = self._lines, self.done * LINES // max(self.total, 1)
        return self.by_lines and self._lines != before

    def line(self, word: str, place: object = "", *values: object) -> None:
        leave_bar()
        output.line(word, place, *values)

    @property
    def place(self) -> str:
        return f"{spaced(self.done)} / {spaced(self.total)}"

    @property
    def rate(self) -> str:
        return f"{spaced(self.progress.rate)} {self.unit}/s"

    @property
    def left(self) -> str:
        rate = self.progress.rate
        return f"{duration(max(self.total - self.done, 0) / rate if rate else None)} left"

    def saving(self, every_s: float, after: str) -> Saving:
        """When to save; an interrupt is acknowledged with what it waits for, as "rollout"."""
        return Saving(
            every_s, lambda: self.line("stop", f"after this {after}", "and save; Ctrl+C or SIGTERM again stops at once")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()


def train_epochs(trainer: EpochTrainer, samples: int, unit: str, figures: dict[str, str], save_every_s: float) -> None:
    """Train by epochs of so many samples to the end; `figures` are what is shown of each epoch, word -> name."""
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


def leave_bar() -> None:
    """Begin a new line where a bar is being drawn."""
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give seconds, 0 or more, or inf")
    return seconds
