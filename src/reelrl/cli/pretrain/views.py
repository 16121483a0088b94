"""Train an encoder of a player's view without labels: mates who watch the same moment should look alike to it.

reel pretrain views DATA                                     contrastive, some minutes on one core
reel pretrain views DATA --objective reconstruction          the same encoder, taught by painting what it saw
reel pretrain views DATA --objective labels                  the same encoder, taught by who is where
reel pretrain views DATA --set net.encoder.model_type=dinov2 --set net.encoder.weights=FOLDER       begin with others'
reel pretrain views --resume runs/0007                       go on where a run stopped
reel evaluate views DATA --encoder runs/0007                 what its frozen embeddings know

DATA is what `reel collect doom` wrote, or matches in X-Ego's layout. Labels are read by `--objective labels` alone, and
to leave out the dead. Ctrl+C ends the training after the batch under way and saves; resumed, it goes on as if nothing
had happened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.act.views.pretrain import ViewsTrainer, ViewsTraining

STAGE = "views"
FIGURES = {"loss": "loss", "mates": "mates", "own": "own", "validation": "val/loss", "top1": "val/top1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="matches that `reel collect doom` recorded")
    add("--objective", metavar="NAME", help="contrastive (default), reconstruction or labels")
    add("--epochs", type=int, metavar="N", help="so many (default 8)")
    options.add_settings(parser)
    training.add_arguments(parser)
    add("--device", metavar="NAME", help="cpu or cuda (default: a GPU where there is one)")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> None:
    from reelrl.act.views.pretrain import TrainingViews, ViewsTrainer
    from reelrl.agents.devices import use_device

    device = use_device(args.device, args.threads)
    settings, seed = _settings(args)
    # Opened before the run's folder: data that cannot be learned from should not leave a run behind.
    views = TrainingViews(settings)
    name = f"views-{settings.net.objective}"
    facts = {"threads": args.threads, "matches": {split: len(each.matches) for split, each in views.moments.items()}}
    with training.in_run(
        STAGE, views.settings, seed, root=args.output_dir, resume=args.resume, name=name, facts=facts
    ) as run_folder:
        trainer = ViewsTrainer(views.settings, seed, run_folder, views, device)
        _introduce(args, trainer)
        training.train_epochs(trainer, len(views.moments["train"]), "moments", FIGURES, args.save_every)
    output.line("best", f"epoch {trainer.best_epoch}", f"loss {-trainer.best_score:.5f}", "validation")
    output.line("done", f"epoch {trainer.epoch}", "saved")
    following = f"reel evaluate views {settings.data} --encoder {run_folder.folder}"
    training.conclude(args, run_folder.folder, following)


def _settings(args: argparse.Namespace) -> tuple[ViewsTraining, int]:
    from reelrl.act.views.pretrain import ViewsTraining

    if before := training.resumed(args, STAGE, ViewsTraining):
        if args.epochs is not None or args.objective is not None:
            raise ConfigError("--epochs and --objective cannot change in a run; leave them out, or begin a new one")
        settings, seed = before
        return (replace(settings, data=args.data) if args.data else settings), seed
    if not args.data:
        raise ConfigError("no data to learn from; give the folder that `reel collect doom` wrote, or --resume RUN")
    settings = options.settings_from(args, ViewsTraining(data=args.data))
    if args.objective is not None:
        settings = replace(settings, net=replace(settings.net, objective=args.objective))
    return (settings if args.epochs is None else replace(settings, epochs=args.epochs)), args.seed


def _introduce(args: argparse.Namespace, trainer: ViewsTrainer) -> None:
    settings, views = trainer.settings, trainer.views
    output.line("run", trainer.run.folder, f"seed {trainer.seed}", f"{settings.epochs} epochs", settings.net.objective)
    counts = [f"{split} matches {len(each.matches)}, moments {len(each)}" for split, each in views.moments.items()]
    output.line("data", settings.data, *counts)
    if views.unlabelled:
        output.line("labels", f"{views.unlabelled} matches have none", "all their players count as alive all the time")
    encoder = settings.net.encoder
    start = f"begins with {encoder.weights}" if encoder.weights else "begins with nothing"
    output.line("net", encoder.model_type, f"pictures of {settings.net.picture[0]} x {settings.net.picture[1]}", start)
    if args.resume:
        training.say_resumed(trainer.place if trainer.resume() else None)
