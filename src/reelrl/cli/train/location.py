"""Train a net that knows where everybody is, from what some players of a recorded match see.

reel train location DATA --frame-reader runs/0001            on what a run of `reel train frame-reader` reads, once
reel train location DATA                                     the same with EfficientNet-Lite0, which saw other pictures
reel train location DATA --contrastive-weight 0.1            views of one moment are brought together besides
reel train location DATA --config location-video             an encoder that learns with the net, from pictures
reel train location DATA --embeddings FOLDER --precomputed   embeddings made before; no video is looked at
reel train location --resume runs/0007                       go on where a run stopped

DATA is what `reel collect doom` wrote. After each epoch the net is asked about validation matches; the best one stays.
Ctrl+C ends the training after the batch under way and saves; resumed, it goes on as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.act.location.dataset import Scenes
    from reelrl.act.location.train import LocationTrainer, LocationTraining

STAGE = "location"
FIGURES = {"location": "loss/location", "contrastive": "loss/contrastive", "precision": "val/precision"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="matches that `reel collect doom` recorded")
    add("--frame-reader", metavar="RUN", help="a run of `reel train frame-reader`, whose net is used frozen")
    add("--contrastive-weight", type=float, metavar="W", help="of the contrastive term, per pair of views (default 0)")
    add("--epochs", type=int, metavar="N", help="at most so many (default 40; with --frame-reader 10)")
    add("--embeddings", metavar="FOLDER", help="keep embeddings there, and take those that are (default: the cache)")
    add("--precomputed", action="store_true", help="look at no video: all embeddings must be there")
    options.add_settings(parser)
    training.add_arguments(parser, but_for="--epochs")
    add("--device", metavar="NAME", help="cpu or cuda (default: a GPU where there is one)")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> None:
    from reelrl.act.location.dataset import Scenes
    from reelrl.act.location.train import LocationTrainer
    from reelrl.agents.devices import use_device

    device = use_device(args.device, args.threads)
    settings, seed = _settings(args)
    # Opened before the run's folder: data that cannot be learned from should not leave a run behind.
    scenes = Scenes(settings, ["train", "val"], embeddings=args.embeddings, make=not args.precomputed, device=device)
    with training.in_run(
        STAGE,
        scenes.settings,
        seed,
        root=args.output_dir,
        resume=args.resume,
        name=_name(scenes.settings),
        facts=_facts(scenes, args.threads),
    ) as run_folder:
        trainer = LocationTrainer(scenes.settings, seed, run_folder, scenes, device)
        _introduce(args, trainer)
        training.train_epochs(trainer, len(scenes.moments["train"]), "moments", FIGURES, args.save_every)
    if trainer.best_epoch:
        score = f"average precision {trainer.best_score:.4f}"
        output.line("best", f"epoch {trainer.best_epoch}", score, "validation, one view")
    output.line("done", f"epoch {trainer.epoch}", "saved")
    training.conclude(args, run_folder.folder, f"reel evaluate location {run_folder.folder}")


def _settings(args: argparse.Namespace) -> tuple[LocationTraining, int]:
    from reelrl.act.location.train import LocationTraining

    if before := training.resumed(args, STAGE, LocationTraining):
        settings, seed = before
        settings = replace(settings, data=args.data) if args.data else settings
    elif args.data:
        settings, seed = (
            options.settings_from(args, _with_frame_reader(args, LocationTraining(data=args.data))),
            args.seed,
        )
    else:
        raise ConfigError("no data to learn from; give the folder that `reel collect doom` wrote, or --resume RUN")
    if args.contrastive_weight is not None and not args.resume:
        term = replace(settings.net.contrastive, loss_weight=args.contrastive_weight)
        settings = replace(settings, net=replace(settings.net, contrastive=term))
    return (settings if args.epochs is None else replace(settings, epochs=args.epochs)), seed


def _with_frame_reader(args: argparse.Namespace, settings: LocationTraining) -> LocationTraining:
    """The settings with the frame reader of another run, frozen, and a memory of what it reads off every frame."""
    from reelrl.act.location.frame_reader.train import FrameReaderTraining, weights_of
    from reelrl.act.location.train import with_memory
    from reelrl.act.video.encoder import VideoEncoderSettings
    from reelrl.runs.folder import RunFolder

    if not args.frame_reader:
        return settings
    folder = RunFolder(args.frame_reader)
    if folder.stage != "frame-reader":
        raise ConfigError(
            f"--frame-reader {args.frame_reader} is a run of `reel train {folder.stage}`; give one of `reel train "
            "frame-reader`"
        )
    weights = str(weights_of(folder))
    encoder = VideoEncoderSettings(model_type="frame-reader", freeze_backbone=True, weights=weights)
    try:
        learned = folder.settings(FrameReaderTraining)
    except ConfigError as error:
        raise ConfigError(
            f"--frame-reader {args.frame_reader} was made by another version ({error}); train one anew: "
            f"reel train frame-reader {settings.data}"
        ) from error
    # A frame reader knows the places of one map alone.
    settings = replace(settings, encoder=encoder, map=learned.map, picture_size=learned.picture_size)
    return with_memory(settings)


def _name(settings: LocationTraining) -> str:
    weight = settings.net.contrastive.loss_weight if settings.net.contrastive.enable else 0
    return f"location-{weight:g}"


def _facts(scenes: Scenes, threads: int) -> dict[str, Any]:
    return {
        "matches": {split: len(moments.matches) for split, moments in scenes.moments.items()},
        "moments": {split: len(moments) for split, moments in scenes.moments.items()},
        "threads": threads,
    }


def _introduce(args: argparse.Namespace, trainer: LocationTrainer) -> None:
    settings, scenes = trainer.settings, trainer.scenes
    output.line("run", trainer.run.folder, f"seed {trainer.seed}", f"up to {settings.epochs} epochs")
    places = f"{settings.net.num_places} places of {scenes.map}"
    counts = [f"{split} matches {len(m.matches)}, moments {len(m)}" for split, m in scenes.moments.items()]
    output.line("data", settings.data, places, *counts)
    frozen = "frozen, encoded once per frame" if settings.encoder.freeze_backbone else "learns with the net"
    output.line("input", settings.encoder.model_type, frozen, f"clips of {settings.samples.frames} frames")
    term = settings.net.contrastive
    output.line("term", "contrastive", f"weight {term.loss_weight:g}" if term.enable else "off")
    if args.resume:
        training.say_resumed(trainer.place if trainer.resume() else None)
