"""Train an autoencoder on a stream of frames: one look at each, one update, no second look.

reel train autoencoder                                    one of five Atari games, by the seed
reel train autoencoder --source ale:Breakout --frames 500000 --device cuda
reel train autoencoder --source gym:ID                    any environment that renders RGB, under random actions
reel train autoencoder --source file:film.mkv             a video, once; also clip:NAME and generated:street
reel train autoencoder --view                             with a page that shows it live
reel train autoencoder --resume runs/0007                 go on where a run stopped, exactly

Each frame is scored before it is learned from, beside two guesses that need no network: the mean of all frames and the
previous frame. metrics.jsonl has a line per 100 frames, TensorBoard (tb/) every frame. Ctrl+C ends the training after
the frame under way and saves; again, at once.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.errors import ConfigError
from reelrl.runs.progress import spaced

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from reelrl.see.train import AutoEncoderTrainer, AutoEncoderTraining

STAGE = "autoencoder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="NAME", help="ale:GAME, gym:ID, file:PATH, clip:NAME or generated:NAME")
    add("--frames", type=int, metavar="N", help="frames to see in all (default 10000)")
    add("--device", metavar="NAME", help="cpu, cuda or cuda:N (default: cuda where there is one)")
    add("--load", metavar="FILE", help="begin with these weights: .safetensors, or a state dict in .pth")
    add("--view", nargs="?", type=int, const=-1, metavar="PORT", help="show it live in a browser on this machine")
    options.add_settings(parser)
    training.add_arguments(parser, but_for="--frames")
    add("--threads", type=int, metavar="N", help="CPU threads of the learner (default 1, or those of the resumed run)")


def run(args: argparse.Namespace) -> None:
    from reelrl.see.monitor.viewer import Viewer
    from reelrl.see.train import AutoEncoderTrainer

    device = training.device_of(args)
    settings, seed = _settings(args)
    viewer = (
        None if args.view is None else Viewer(settings.source, settings.frames, None if args.view < 0 else args.view)
    )
    if not args.resume:
        _check_source(args, settings, seed)
    facts = {"device": str(device), "threads": args.threads or 1}
    where = training.in_run(
        STAGE, settings, seed, root=args.output_dir, resume=args.resume, name=_name(settings), facts=facts
    )
    with viewer or nullcontext(), where as run_folder:
        trainer = AutoEncoderTrainer(settings, seed, run_folder, device, viewer)
        _introduce(args, trainer)
        with training.Report(settings.frames, unit="frames") as report:
            report.begin(trainer.frames_done)
            on_frame = _frame_report(trainer, report)
            outcome = trainer.train(on_frame, report.saving(args.save_every, "frame"))
    if outcome == "ended":
        output.line("end", settings.source, f"has no more frames after frame {spaced(trainer.frames_done)}")
    _conclude(trainer)
    training.conclude(args, run_folder.folder, f"tensorboard --logdir {run_folder.folder / 'tb'}")


def _settings(args: argparse.Namespace) -> tuple[AutoEncoderTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl.see.frames.source import random_game
    from reelrl.see.train import AutoEncoderTraining
    from reelrl.settings import config

    changes: dict[str, Any] = {} if args.frames is None else {"frames": args.frames}
    if before := training.resumed(args, STAGE, AutoEncoderTraining):
        if args.load:
            raise ConfigError("--load begins a run and --resume continues one; give one of them")
        return config.merge(before[0], changes), before[1]
    defaults = AutoEncoderTraining(source=args.source or random_game(args.seed))
    chosen = config.named(defaults, args.config) if args.config else defaults
    given = {**changes, "model": {"seed": args.seed}} | ({"source": args.source} if args.source else {})
    return config.override(config.merge(chosen, given), args.set), args.seed


def _check_source(args: argparse.Namespace, settings: AutoEncoderTraining, seed: int) -> None:
    """What cannot be watched or loaded should not leave a run behind."""
    from reelrl.content.feeds.process import FeedProcess

    if args.load and not Path(args.load).is_file():
        raise ConfigError(f"--load {args.load}: there is no such file")
    FeedProcess(settings.source, seed).close()


def _name(settings: AutoEncoderTraining) -> str:
    what = settings.source.partition("?")[0].rpartition(":")[2]
    name = "autoencoder-" + "".join(c if c.isalnum() else "-" for c in Path(what).stem.lower()).strip("-")
    return name[:60]


def _introduce(args: argparse.Namespace, trainer: AutoEncoderTrainer) -> None:
    """Say what runs; go back to the last checkpoint or take in the weights that were asked for."""
    from reelrl.see.weights import load_weights

    settings = trainer.settings
    output.line("run", trainer.run.folder, f"seed {trainer.seed}", f"{spaced(settings.frames)} frames", trainer.device)
    chosen = "" if args.source or args.resume else "picked by the seed among five games"
    output.line("source", settings.source, *([chosen] if chosen else []))
    parameters = sum(value.numel() for value in trainer.model.parameters())
    output.line("model", f"{spaced(parameters)} parameters", settings.model.optimiser.name)
    if trainer.viewer:
        output.line("view", trainer.viewer.url)
    if args.resume:
        training.say_resumed(f"frame {spaced(trainer.frames_done)}" if trainer.resume() else None)
    if args.load:
        output.line("load", args.load, load_weights(trainer.model, args.load))


def _conclude(trainer: AutoEncoderTrainer) -> None:
    figures = trainer.window.latest
    if figures:
        output.line("final", *_figures(figures))
        output.line("guess", *_figures(figures, "mean_frame_"), "mean of all frames")
        output.line("guess", *_figures(figures, "previous_frame_"), "previous frame")
    output.line("time", "   ".join(f"{part} {share}" for part, share in _shares(trainer).items()))
    output.line("saved", trainer.run.artifacts / "model.safetensors")


def _figures(figures: dict[str, float], guess: str = "") -> list[str]:
    named = [("PSNR", f"{guess}psnr"), ("foreground", f"{guess}foreground_psnr")]
    return [f"{name} {figures[key]:.2f} dB" for name, key in named if key in figures]


def _shares(trainer: AutoEncoderTrainer) -> dict[str, str]:
    return {part: f"{share:.0%}" for part, share in trainer.performance.shares().items()}


def _frame_report(trainer: AutoEncoderTrainer, report: training.Report) -> Callable[[int], None]:
    """What is printed after each frame."""

    def on_frame(done: int) -> None:
        latest, shares = trainer.window.latest, _shares(trainer)
        shown = {"mse": latest["mse"], "PSNR": latest["psnr"]} if latest else {}
        report.moved(done, **shown, **shares)
        if report.line_due():
            figures = [f"mse {latest['mse']:.5f}", *_figures(latest)] if latest else []
            spent = [f"{name} {share}" for name, share in shares.items()]
            report.line("frame", report.place, *figures, report.rate, *spent, report.left)

    return on_frame
