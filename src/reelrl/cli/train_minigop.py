"""Train an agent that decides the QP of each mini-GOP under a bitrate: constrained SAC.

reel train minigop --clip carphone bus generated:cuts --epochs 20        rates drawn, encoder in this process
reel train minigop --clip carphone --kbps 100-400 --structure low_delay  within a leaky bucket, no probe pass
reel train minigop --videos "--input|in.yuv|--input-res|1920x1080|--o|out.ivf|--bitrate|2125|--fps|24" --epochs 20
reel train minigop --use-dataset --dataset-inputs "data/*.yuv" --stat-dir p1logs --out-dir outputs
reel train minigop --encoder ./my-encoder --rl-dir ./rl_io --videos "--input|in.yuv|--rl-dir|{rl_dir}|--bitrate|500"
reel train minigop --mode infer --load-checkpoint checkpoint_epoch_20.pt --videos ...
reel train minigop --resume runs/0007                                    go on where a run stopped, exactly

An epoch is one pass over all videos; --epochs is the total to reach, also after --load-checkpoint or --resume. The
agent corrects a controller that is good without it (--base), so that it begins with good rate control. Ctrl+C ends
the training after the video under way and saves; again, at once. A foreign encoder is run without a shell and finds
the folder in {rl_dir} or the variable RL_DIR (docs/handshake.md).
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.evaluation.minigop_training import MiniGopTrainer, MiniGopTraining

STAGE = "minigop"
SILENT, IMPORTANT, DETAILED, DEBUG = range(4)

# Option -> setting. An option that is not given leaves its setting as the defaults or --config have it.
SETTINGS = {
    "clip": "clips",
    "encoder": "encoder",
    "rl_dir": "rl_dir",
    "epochs": "epochs",
    "start_epoch": "start_epoch",
    "frames": "frames",
    "kbps": "kbps",
    "structure": "structure",
    "preset": "preset",
    "base": "base",
    "ckpt_dir": "ckpt_dir",
    "ckpt_interval": "ckpt_interval",
    "save_replay_buffer": "save_replay_buffer",
    "device": "device",
    "baseline_stats": "baseline_stats",
}
# What a resumed run may be told anew.
CONTINUED = ("epochs", "ckpt_dir", "ckpt_interval", "save_replay_buffer", "device")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--clip", nargs="+", metavar="CLIP", help="names, files or recipes to learn on")
    add("--kbps", type=_rates, metavar="LOW-HIGH", help="rates to draw from; default: what crf at QP 26 to 54 spends")
    add("--frames", type=int, metavar="N", help="of each clip; 0, the default, takes all")
    add("--structure", choices=("random_access", "low_delay"), help="default random_access, with a probe pass")
    add("--preset", type=int, help="the encoder's speed preset (default 8)")
    add("--base", metavar="CONTROLLER", help="whom to correct (default rate-model; low delay leaky-bucket), or none")
    add("--videos", action="append", metavar="FLAGS", help='"--input|in.yuv|--bitrate|500": an encoder\'s own flags')
    add("--use-dataset", action="store_true", help="learn on all files of --dataset-inputs")
    add("--dataset-inputs", metavar="GLOB", help='pattern of files, such as "data/*.yuv"; sizes from flags or names')
    add("--stat-dir", metavar="FOLDER", help="first-pass logs of the data set, by stem; missing ones are made")
    add("--out-dir", metavar="FOLDER", help="where the data set's streams and csv files go")
    add("--encoder", metavar="PATH", help="a foreign encoder program; default: the encoder in this process")
    add("--rl-dir", metavar="FOLDER", help="where to meet a foreign encoder (default ./rl_io)")
    add("--epochs", type=int, metavar="N", help="to reach in all (default 2)")
    add("--start-epoch", type=int, metavar="N", help="number of the first epoch (default 1)")
    add("--mode", choices=("train", "infer"), default="train", help="infer codes every video once, without learning")
    add("--log-level", type=int, choices=range(4), default=1, help="0 silent, 1 important, 2 detailed, 3 debug")
    add("--no-tensorboard", action="store_true", help="leave no curves for TensorBoard")
    add("--ckpt-dir", metavar="FOLDER", help="where checkpoint_epoch_N.pt go (default the run's artifacts)")
    add("--ckpt-interval", type=int, metavar="N", help="epochs from one of them to the next (default 5)")
    add("--load-checkpoint", default="", metavar="FILE", help="begin with what this checkpoint_epoch_N.pt knows")
    add("--save-replay-buffer", action="store_const", const=True, help="keep in them what was seen, to go on exactly")
    add("--device", metavar="NAME", help="of the learner: cpu (default), cuda, auto")
    add("--baseline-stats", metavar="FILE", help="curves that `reel evaluate minigop --baseline` wrote, for rewards")
    add("--output-dir", default="runs", metavar="FOLDER", help="where runs are kept (default runs)")
    add("--resume", metavar="RUN", help="continue this run; its settings and seed hold, but for --epochs and --ckpt-*")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")
    options.add_seed(parser)
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.agents.ppo import use_threads
    from reelrl.agents.training import Interrupted
    from reelrl.cli.main import DONE, INTERRUPTED
    from reelrl.evaluation.minigop_training import MiniGopTrainer
    from reelrl.evaluation.minigop_videos import Video, parse_video
    from reelrl.runs import Run

    use_threads(args.threads)
    settings, seed = _settings(args)
    videos = [Video(name, {}) for name in settings.clips] + [parse_video(text) for text in settings.videos]
    trainer = MiniGopTrainer(settings, videos, seed)
    board = not args.no_tensorboard
    if args.resume:
        folder = Run.open(args.resume, tensorboard=board)
    else:
        facts = trainer.facts()
        folder = Run.create(
            args.output_dir, settings, stage=STAGE, name="minigop-sac", seed=seed, facts=facts, tensorboard=board
        )
    learns = args.mode == "train"
    say = _Reporter(args.log_level)
    with folder, Progress(args.mode, unit="videos", mode="auto" if args.log_level else "off") as progress:
        say.progress = progress
        try:
            trainer.attach(folder, say, args.load_checkpoint)
            progress.total = trainer.episodes - trainer.next_episode if learns else len(videos)
            say.start(trainer, seed, learns)
            figures = trainer.train() if learns else trainer.infer()
        except Interrupted:
            say.line(IMPORTANT, "stopped", f"episode {trainer.next_episode}", "saved, with the policy as interrupted_*")
            say.next(f"reel train minigop --resume {folder.folder}")
            return INTERRUPTED
        finally:
            trainer.close()
    say.end(folder.folder, figures, learns)
    return DONE


def _settings(args: argparse.Namespace) -> tuple[MiniGopTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl import config
    from reelrl.evaluation.minigop_training import MiniGopTraining
    from reelrl.runs import RunFolder

    given = {name: getattr(args, option) for option, name in SETTINGS.items() if getattr(args, option) is not None}
    if args.resume:
        folder = RunFolder(args.resume)
        if folder.stage != STAGE:
            raise ConfigError(f"{folder.folder} is a run of `reel train {folder.stage}`; resume it with that command")
        again = {name: value for name, value in given.items() if name in CONTINUED}
        return config.merge(folder.settings(MiniGopTraining), again), folder.seed
    chosen = config.named(MiniGopTraining(), args.config) if args.config else MiniGopTraining()
    return config.override(config.merge(chosen, given | _videos(args)), args.set), args.seed


def _videos(args: argparse.Namespace) -> dict[str, Any]:
    """The videos of --videos and of the data set, as an encoder's flags."""
    from reelrl.evaluation.minigop_videos import data_set

    texts = list(args.videos or ())
    if args.use_dataset != (args.dataset_inputs is not None):
        raise ConfigError("--use-dataset and --dataset-inputs belong together; give both, or neither")
    if args.use_dataset:
        texts += data_set(args.dataset_inputs, args.stat_dir, args.out_dir)
    return {"videos": texts} if texts else {}


def _rates(text: str) -> tuple[float, float]:
    low, _, high = text.partition("-")
    try:
        return float(low), float(high or low)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of rates; write it like 100-400, or 300") from None


class _Reporter:
    """Tells a person how the training goes, as much as the log level asks for."""

    progress: Progress

    def __init__(self, level: int) -> None:
        self.level = level

    def start(self, trainer: MiniGopTrainer, seed: int, learns: bool) -> None:
        facts, settings = trainer.facts(), trainer.settings
        self.line(IMPORTANT, "run", trainer.run.folder, f"seed {seed}", facts["encoder"])
        epochs = f"epochs {settings.start_epoch} to {settings.epochs}" if learns else "one pass, without learning"
        self.line(IMPORTANT, "videos", len(trainer.videos), settings.structure, f"base {trainer.base}", epochs)
        if learns and trainer.model.num_timesteps:
            self.line(IMPORTANT, "resume", f"episode {trainer.next_episode}", f"{trainer.model.num_timesteps} steps")

    def decision(self, info: dict[str, Any]) -> None:
        asked = info["request"]
        told = ", ".join(f"{one['mg']}: {one['bits']} bits {one['psnr_y']:.2f} dB" for one in info["feedback"])
        self.line(DEBUG, "mg", asked["mg"], f"QP {asked['base_qp']} {info['delta']:+.2f}", told or "nothing known yet")

    def episode(self, number: int, video: str, figures: dict[str, float]) -> None:
        self.progress.update(1, **{"return": figures["return"], "rate": f"{100 * figures['rate_error']:+.1f} %"})
        self._figures(DETAILED, "video", video, figures, f"episode {number}")

    def epoch(self, epoch: int, figures: dict[str, float]) -> None:
        self._figures(IMPORTANT, "epoch", epoch, figures, f"mean |error| {100 * figures['abs_rate_error']:.1f} %")

    def saved(self, path: Path) -> None:
        self.line(IMPORTANT, "saved", path)

    def interrupt(self) -> None:
        self.line(IMPORTANT, "stop", "after this video", "Ctrl+C again stops at once")

    def end(self, folder: Path, figures: dict[str, float], learns: bool) -> None:
        if figures:
            self._figures(IMPORTANT, "final", "", figures)
        self.line(IMPORTANT, "saved", folder / "artifacts", "the policy as final_sac_model" if learns else "")
        if learns:
            self.next(f"reel evaluate minigop --controllers sac={folder}")

    def line(self, level: int, word: str, place: object = "", *values: object) -> None:
        if self.level >= level:
            if sys.stderr.isatty():  # leave the bar that is being drawn
                print(file=sys.stderr)
            output.line(word, place, *values)

    def next(self, command: str) -> None:
        if self.level >= IMPORTANT:
            output.next_command(command)

    def _figures(self, level: int, word: str, place: object, figures: dict[str, float], *more: str) -> None:
        shown = (
            f"return {figures['return']:+.3f} dB",
            f"cost {figures['cost']:.4f}",
            f"rate {100 * figures['rate_error']:+.1f} %",
            f"PSNR-Y {figures['psnr_y']:.2f} dB",
        )
        self.line(level, word, place, *shown, *more)
