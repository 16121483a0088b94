"""Train eyes on single pictures of recorded matches: where the player is and looks, and whom it sees where.

reel train eyes DATA                                 small eyes, some minutes on one core
reel train eyes DATA --config eyes-gpu               sharp ones, some minutes on a GPU
reel train eyes --resume runs/0007                   go on where a run stopped
reel train location DATA --eyes runs/0007            nets on what these eyes see

DATA is what `reel collect doom` wrote; of its matches only those for training teach. Ctrl+C ends the training after the
batch under way and saves; resumed, it goes on as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.cli.train.epochs import train_and_tell
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.act.location.frame_reader.train import EyesTrainer, EyesTraining

STAGE = "eyes"
_TOLD = {name: f"val/{name}" for name in ("loss", "place", "heading", "mates", "enemies", "who")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="matches that `reel collect doom` recorded")
    add("--epochs", type=int, metavar="N", help="so many (default 4)")
    options.add_settings(parser)
    training.add_arguments(parser)
    add("--device", metavar="NAME", help="cpu or cuda (default: a GPU where there is one)")
    add("--jobs", type=int, default=1, metavar="N", help="processes that decode videos (default 1)")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> None:
    from reelrl.act.location.frame_reader.train import EyesTrainer, open_glances
    from reelrl.agents.devices import use_device
    from reelrl.parallel import processes

    device = use_device(args.device, args.threads)
    settings, seed = _settings(args)
    with processes(args.jobs) as work:
        settings, glances = open_glances(settings, work)
    facts = {"threads": args.threads}
    with training.in_run(
        STAGE, settings, seed, root=args.output_dir, resume=args.resume, name="eyes", facts=facts
    ) as run_folder:
        trainer = EyesTrainer(settings, seed, run_folder, glances, device)
        _introduce(args, trainer)
        train_and_tell(trainer, len(glances["train"]), "pictures", _TOLD, args.save_every)
    output.line("done", f"epoch {trainer.epoch}", f"best {trainer.best_epoch}")
    output.next_command(f"reel train location {settings.data} --eyes {run_folder.folder}")


def _settings(args: argparse.Namespace) -> tuple[EyesTraining, int]:
    from reelrl.act.location.frame_reader.train import EyesTraining

    if before := training.resumed(args, STAGE, EyesTraining):
        if args.epochs is not None:
            raise ConfigError("--epochs decides how fast the learning rate falls; it cannot change in a run")
        return before
    if not args.data:
        raise ConfigError("no data to learn from; give the folder that `reel collect doom` wrote, or --resume RUN")
    settings = options.settings_from(args, EyesTraining(data=args.data))
    return (settings if args.epochs is None else replace(settings, epochs=args.epochs)), args.seed


def _introduce(args: argparse.Namespace, trainer: EyesTrainer) -> None:
    glances = trainer.glances
    height, width = glances["train"].pictures.shape[2:]
    output.line("run", trainer.run.folder, f"seed {trainer.seed}", f"{trainer.epochs} epochs")
    counts = [f"{split} {len(each)} pictures" for split, each in glances.items()]
    output.line("data", trainer.settings.data, *counts, f"of {height} x {width}")
    if args.resume:
        training.say_resumed(trainer.place if trainer.resume() else None)
