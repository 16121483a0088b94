"""Train an agent that decides the QP of each mini-GOP under a bitrate: constrained SAC.

reel train minigop --clip carphone bus generated:cuts --epochs 20        rates drawn, encoder in this process
reel train minigop --clip carphone --kbps 100-400 --structure low_delay  within a leaky bucket, no probe pass
reel train minigop --videos "--input|in.yuv|--input-res|1920x1080|--o|out.ivf|--bitrate|2125|--fps|24" --epochs 20
reel train minigop --use-dataset --dataset-inputs "data/*.yuv" --stat-dir p1logs --out-dir outputs
reel train minigop --encoder ./my-encoder --rl-dir ./rl_io --videos "--input|in.yuv|--rl-dir|{rl_dir}|--bitrate|500"
reel train minigop --mode infer --load-checkpoint checkpoint_epoch_20.pt --videos ...
reel train minigop --clip carphone bus cuts --rollout 3 --ray auto        three episodes side by side, on a cluster
reel train minigop --resume runs/0007                                    go on where a run stopped, exactly

An epoch is one pass over all videos; --epochs is the total to reach, also after --load-checkpoint or --resume. The
agent corrects a controller that is good without it (--base), so that it begins with good rate control. Ctrl+C ends
the training after the video under way and saves; again, at once. A foreign encoder is run without a shell and finds
the folder in {rl_dir} or the variable RL_DIR (docs/how-to/steer-your-own-encoder.md).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import command as training
from reelrl.errors import ConfigError
from reelrl.runs.saving import Saving

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.minigop.train import MiniGopTrainer, MiniGopTraining
    from reelrl.runs.folder import Run

STAGE = "minigop"
SILENT, IMPORTANT, DETAILED, DEBUG = range(4)

# Option -> setting. An option that is not given leaves its setting as the defaults or --config have it.
SETTINGS = {
    "clip": "clips",
    "encoder": "encoder",
    "rl_dir": "rl_dir",
    "epochs": "epochs",
    "rollout": "rollout",
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
# What may be set anew for a resumed run.
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
    add(
        "--rollout", type=int, metavar="N", help="episodes that one policy plays before it learns from them (default 1)"
    )
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
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")
    options.add_workers(parser, 1, "episodes of a rollout played at the same time")
    training.add_arguments(parser, but_for="--epochs and --ckpt-*")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.agents.devices import use_threads
    from reelrl.encode.minigop.train import MiniGopTrainer
    from reelrl.encode.minigop.training.videos import TrainingVideo, parse_video

    use_threads(args.threads)
    settings, seed = _settings(args)
    videos = [TrainingVideo(name, {}) for name in settings.clips] + [parse_video(text) for text in settings.videos]
    if args.jobs > 1 and settings.rollout == 1:
        output.note("workers", args.jobs, "one episode is played at a time", "--rollout N plays N side by side")
    trainer = MiniGopTrainer(settings, videos, seed, args.jobs)
    with training.in_run(
        STAGE,
        settings,
        seed,
        root=args.output_dir,
        resume=args.resume,
        name="minigop-sac",
        facts=trainer.facts(),
        tensorboard=not args.no_tensorboard,
        quiet=args.log_level == SILENT,
    ) as folder:
        try:
            _work(args, trainer, folder, seed)
        finally:
            trainer.close()
    evaluation = f"reel evaluate minigop --controllers sac={folder.folder}"
    training.conclude(args, folder.folder, evaluation if args.mode == "train" and args.log_level else "")


def _work(args: argparse.Namespace, trainer: MiniGopTrainer, folder: Run, seed: int) -> None:
    learns = args.mode == "train"
    total = trainer.episodes if learns else len(trainer.videos)
    with training.Report(total, unit="videos", label=args.mode, mode="auto" if args.log_level else "off") as report:
        say = _LevelledReport(args.log_level, report)
        trainer.attach(folder, say, args.load_checkpoint)
        report.begin(trainer.next_episode if learns else 0)
        say.start(trainer, seed, learns)
        saving = report.saving(args.save_every, "video") if args.log_level else Saving(args.save_every)
        figures = trainer.train(saving) if learns else trainer.infer()
    say.end(folder.folder, figures, learns)


def _settings(args: argparse.Namespace) -> tuple[MiniGopTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl.encode.minigop.train import MiniGopTraining
    from reelrl.settings import config

    given = {name: getattr(args, option) for option, name in SETTINGS.items() if getattr(args, option) is not None}
    if before := training.resumed(args, STAGE, MiniGopTraining):
        again = {name: value for name, value in given.items() if name in CONTINUED}
        return config.merge(before[0], again), before[1]
    chosen = config.named(MiniGopTraining(), args.config) if args.config else MiniGopTraining()
    return config.override(config.merge(chosen, given | _videos(args)), args.set), args.seed


def _videos(args: argparse.Namespace) -> dict[str, Any]:
    """The videos of --videos and of the data set, as an encoder's flags."""
    from reelrl.encode.minigop.training.videos import data_set

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


class _LevelledReport:
    """Passes on what the training says, as much as the log level asks for."""

    def __init__(self, level: int, report: training.Report) -> None:
        self.level, self.report = level, report

    def start(self, trainer: MiniGopTrainer, seed: int, learns: bool) -> None:
        facts, settings = trainer.facts(), trainer.settings
        self.line(IMPORTANT, "run", trainer.run.folder, f"seed {seed}", facts["encoder"])
        epochs = f"epochs {settings.start_epoch} to {settings.epochs}" if learns else "one pass, without learning"
        self.line(IMPORTANT, "videos", len(trainer.videos), settings.structure, f"base {trainer.base}", epochs)
        if learns and trainer.model.num_timesteps:
            self.line(IMPORTANT, "resume", f"episode {trainer.next_episode}", f"{trainer.model.num_timesteps} steps")

    def decision(self, info: dict[str, Any]) -> None:
        asked = info["request"]
        known = ", ".join(f"{one['mg']}: {one['bits']} bits {one['psnr_y']:.2f} dB" for one in info["feedback"])
        self.line(DEBUG, "mg", asked["mg"], f"QP {asked['base_qp']} {info['delta']:+.2f}", known or "nothing known yet")

    def episode(self, number: int, video: str, figures: dict[str, float]) -> None:
        shown = {"return": figures["return"], "rate": f"{100 * figures['rate_error']:+.1f} %"}
        self.report.moved(number + 1, **shown)
        self._figures(DETAILED, "video", video, figures, f"episode {number}")

    def epoch(self, epoch: int, figures: dict[str, float]) -> None:
        self._figures(IMPORTANT, "epoch", epoch, figures, f"mean |error| {100 * figures['abs_rate_error']:.1f} %")

    def saved(self, path: Path) -> None:
        self.line(IMPORTANT, "saved", path)

    def end(self, folder: Path, figures: dict[str, float], learns: bool) -> None:
        if figures:
            self._figures(IMPORTANT, "final", "", figures)
        self.line(IMPORTANT, "saved", folder / "artifacts", "the policy as final_sac_model" if learns else "")

    def line(self, level: int, word: str, place: object = "", *values: object) -> None:
        if self.level >= level:
            self.report.line(word, place, *values)

    def _figures(self, level: int, word: str, place: object, figures: dict[str, float], *more: str) -> None:
        shown = (
            f"return {figures['return']:+.3f} dB",
            f"cost {figures['cost']:.4f}",
            f"rate {100 * figures['rate_error']:+.1f} %",
            f"PSNR-Y {figures['psnr_y']:.2f} dB",
        )
        self.line(level, word, place, *shown, *more)
