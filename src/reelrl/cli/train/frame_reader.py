"""Train a frame reader on single frames of recorded matches: where the player is and looks, and whom it sees where.

reel train frame-reader DATA                                 a small one, some minutes on one core
reel train frame-reader DATA --config frame-reader-gpu       a sharp one, some minutes on a GPU
reel train frame-reader --resume runs/0007                   go on where a run stopped
reel train location DATA --frame-reader runs/0007            nets on what it reads

DATA is what `reel collect doom` wrote; of its matches only those for training teach. Ctrl+C ends the training after the
batch under way and saves; resumed, it goes on as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.act.location.frame_reader.train import FrameReaderTrainer, FrameReaderTraining

STAGE = "frame-reader"
FIGURES = {name: f"val/{name}" for name in ("loss", "place", "heading", "mates", "enemies", "who")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="matches that `reel collect doom` recorded")
    add("--epochs", type=int, metavar="N", help="so many (default 4)")
    options.add_settings(parser)
    training.add_arguments(parser)
    add("--device", metavar="NAME", help="cpu or cuda (default: a GPU where there is one)")
    options.add_workers(parser, 1, "processes that decode videos", cluster=False)
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> None:
    from reelrl.act.location.frame_reader.train import FrameReaderTrainer, open_labelled_frames
    from reelrl.agents.devices import use_device
    from reelrl.parallel import executor

    device = use_device(args.device, args.threads)
    settings, seed = _settings(args)
    with executor(args.jobs) as work:
        settings, frames = open_labelled_frames(settings, work.map)
    facts = {"threads": args.threads}
    with training.in_run(
        STAGE, settings, seed, root=args.output_dir, resume=args.resume, name=STAGE, facts=facts
    ) as run_folder:
        trainer = FrameReaderTrainer(settings, seed, run_folder, frames, device)
        _introduce(args, trainer)
        training.train_epochs(trainer, len(frames["train"]), "pictures", FIGURES, args.save_every)
    output.line("done", f"epoch {trainer.epoch}", f"best {trainer.best_epoch}")
    following = f"reel train location {settings.data} --frame-reader {run_folder.folder}"
    training.conclude(args, run_folder.folder, following)


def _settings(args: argparse.Namespace) -> tuple[FrameReaderTraining, int]:
    from reelrl.act.location.frame_reader.train import FrameReaderTraining

    if before := training.resumed(args, STAGE, FrameReaderTraining):
        if args.epochs is not None:
            raise ConfigError("--epochs decides how fast the learning rate falls; it cannot change in a run")
        return before
    if not args.data:
        raise ConfigError("no data to learn from; give the folder that `reel collect doom` wrote, or --resume RUN")
    settings = options.settings_from(args, FrameReaderTraining(data=args.data))
    return (settings if args.epochs is None else replace(settings, epochs=args.epochs)), args.seed


def _introduce(args: argparse.Namespace, trainer: FrameReaderTrainer) -> None:
    frames = trainer.frames
    height, width = frames["train"].pictures.shape[2:]
    output.line("run", trainer.run.folder, f"seed {trainer.seed}", f"{trainer.epochs} epochs")
    counts = [f"{split} {len(each)} pictures" for split, each in frames.items()]
    output.line("data", trainer.settings.data, *counts, f"of {height} x {width}")
    if args.resume:
        training.say_resumed(trainer.place if trainer.resume() else None)
