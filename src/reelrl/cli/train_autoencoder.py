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

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.progress import Progress, duration, spaced

if TYPE_CHECKING:
    import argparse

    import torch

    from reelrl.runs import Run
    from reelrl.see.training import AutoEncoderTrainer, AutoEncoderTraining

STAGE = "autoencoder"
LINES = 20  # of progress, where there is no terminal to draw a bar on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="NAME", help="ale:GAME, gym:ID, file:PATH, clip:NAME or generated:NAME")
    add("--frames", type=int, metavar="N", help="frames to see in all (default 10000)")
    add("--device", metavar="NAME", help="cpu, cuda or cuda:N (default: cuda where there is one)")
    add("--load", metavar="FILE", help="begin with these weights: .safetensors, or a state dict in .pth")
    add("--view", nargs="?", type=int, const=-1, metavar="PORT", help="show it live in a browser on this machine")
    add("--output-dir", default="runs", metavar="FOLDER", help="where runs are kept (default runs)")
    options.add_seed(parser)
    options.add_settings(parser)
    add("--resume", metavar="RUN", help="continue this run; its own settings and seed hold, but for --frames")
    add("--threads", type=int, metavar="N", help="CPU threads of the learner (default 1, or those of the resumed run)")


def run(args: argparse.Namespace) -> int:
    from reelrl.see.training import AutoEncoderTrainer
    from reelrl.see.viewer import Viewer

    device = _device(args)
    settings, seed = _settings(args)
    viewer = (
        None if args.view is None else Viewer(settings.source, settings.frames, None if args.view < 0 else args.view)
    )
    with viewer or nullcontext(), _run_folder(args, settings, seed, device) as run_folder:
        trainer = AutoEncoderTrainer(settings, seed, run_folder, device, viewer)
        _introduce(args, trainer)
        with Progress("train", settings.frames - trainer.frames_done, unit="frames") as progress:
            tell = _Reporter(trainer, progress)
            outcome = trainer.train(tell.frame, tell.interrupt)
    return _conclude(trainer, outcome)


def _settings(args: argparse.Namespace) -> tuple[AutoEncoderTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl import config
    from reelrl.runs import RunFolder
    from reelrl.see.sources import random_game
    from reelrl.see.training import AutoEncoderTraining

    changes: dict[str, Any] = {} if args.frames is None else {"frames": args.frames}
    if args.resume:
        folder = RunFolder(args.resume)
        if folder.stage != STAGE:
            raise ConfigError(f"{folder.folder} is a run of `reel train {folder.stage}`; resume it with that command")
        if args.load:
            raise ConfigError("--load begins a run and --resume continues one; give one of them")
        return config.merge(folder.settings(AutoEncoderTraining), changes), folder.seed
    defaults = AutoEncoderTraining(source=args.source or random_game(args.seed))
    chosen = config.named(defaults, args.config) if args.config else defaults
    given = {**changes, "model": {"seed": args.seed}} | ({"source": args.source} if args.source else {})
    return config.override(config.merge(chosen, given), args.set), args.seed


def _device(args: argparse.Namespace) -> torch.device:
    """Where to learn, and on how many threads: as asked, else as the resumed run did."""
    from reelrl.runs import RunFolder
    from reelrl.see.devices import use_device

    # Sums over other numbers of threads, or on another device, differ in the last bit.
    before = RunFolder(args.resume).meta["facts"] if args.resume else {}
    return use_device(
        args.device or before.get("device"), before.get("threads", 1) if args.threads is None else args.threads
    )


def _run_folder(args: argparse.Namespace, settings: AutoEncoderTraining, seed: int, device: torch.device) -> Run:
    from reelrl.content.feed_process import FeedProcess
    from reelrl.runs import Run

    if args.resume:
        return Run.open(args.resume)
    if args.load and not Path(args.load).is_file():
        raise ConfigError(f"--load {args.load}: there is no such file")
    FeedProcess(settings.source, seed).close()  # a source that cannot be watched should not leave a run behind
    what = settings.source.partition("?")[0].rpartition(":")[2]
    name = "autoencoder-" + "".join(c if c.isalnum() else "-" for c in Path(what).stem.lower()).strip("-")
    facts = {"device": str(device), "threads": args.threads or 1}
    return Run.create(args.output_dir, settings, stage=STAGE, name=name[:60], seed=seed, facts=facts)


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
        at = f"frame {spaced(trainer.frames_done)}" if trainer.resume() else "the beginning: nothing was saved yet"
        output.line("resume", at)
    if args.load:
        output.line("load", args.load, load_weights(trainer.model, args.load))


def _conclude(trainer: AutoEncoderTrainer, outcome: str) -> int:
    from reelrl.cli.main import DONE

    folder, done = trainer.run.folder, f"frame {spaced(trainer.frames_done)}"
    if outcome == "ended":
        output.line("end", trainer.settings.source, f"has no more frames after {done}")
    if outcome == "stopped":
        output.line("stopped", done, "saved")
    figures = trainer.window.latest
    if figures:
        output.line("final", *_figures(figures))
        output.line("guess", *_figures(figures, "mean_frame_"), "mean of all frames")
        output.line("guess", *_figures(figures, "previous_frame_"), "previous frame")
    output.line("time", "   ".join(f"{part} {share:.0%}" for part, share in trainer.performance.shares().items()))
    output.line("saved", folder / "artifacts" / "model.safetensors")
    if outcome == "stopped":
        output.next_command(f"reel train autoencoder --resume {folder}")
    else:
        output.next_command(f"tensorboard --logdir {folder / 'tb'}")
    return DONE


def _figures(figures: dict[str, float], guess: str = "") -> list[str]:
    named = [("PSNR", f"{guess}psnr"), ("foreground", f"{guess}foreground_psnr")]
    return [f"{name} {figures[key]:.2f} dB" for name, key in named if key in figures]


class _Reporter:
    """Tells a person how the training goes: on a terminal by the bar, elsewhere by some lines."""

    def __init__(self, trainer: AutoEncoderTrainer, progress: Progress) -> None:
        self.trainer, self.progress = trainer, progress
        self.lines = trainer.frames_done * LINES // trainer.settings.frames

    def frame(self, done: int) -> None:
        trainer = self.trainer
        latest = trainer.window.latest
        if latest:
            self.progress.figures |= {"mse": latest["mse"], "PSNR": latest["psnr"]}
        self.progress.figures |= self._shares()
        self.progress.update()
        lines = done * LINES // trainer.settings.frames
        if lines == self.lines or sys.stderr.isatty():
            return
        self.lines = lines
        rate = self.progress.rate
        left = duration((trainer.settings.frames - done) / rate)
        figures = [f"mse {latest['mse']:.5f}", *_figures(latest)] if latest else []
        shares = [f"{name} {share}" for name, share in self._shares().items()]
        place = f"{spaced(done)} / {spaced(trainer.settings.frames)}"
        output.line("frame", place, *figures, f"{spaced(rate)} frames/s", *shares, f"{left} left")

    def interrupt(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)
        output.line("stop", "after this frame", "Ctrl+C again stops at once")

    def _shares(self) -> dict[str, str]:
        return {part: f"{share:.0%}" for part, share in self.trainer.performance.shares().items()}
