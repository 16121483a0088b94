"""Train an agent that places QP offsets on the superblocks of each frame.

reel train superblock --file clip.y4m                             PPO over whole maps, into runs/
reel train superblock --file clip.y4m --algorithm dqn             branching DQN: one head of 7 offsets per superblock
reel train superblock --file *.y4m --action features --state summary
                                                                  weights of a few features, for clips of any size
reel train superblock --file clip.y4m --config av1-gym            the hyper-parameters of the older gym
reel train superblock --resume runs/0007                          go on where a run stopped, exactly

Artifacts lie in the run's folder: baseline_output.ivf, final_ppo_model.safetensors, final_encoder_video.ivf,
monitor.csv. Ctrl+C ends the training after the rollout under way and saves interrupted_*; again, at once.
DQN needs options to choose among: it takes maps as they are, and the weights of features in 7 levels each.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.progress import Progress, duration

if TYPE_CHECKING:
    import argparse

    from reelrl.evaluation.superblock_training import SuperblockTrainer, SuperblockTraining

# Option -> setting. An option that is not given leaves its setting as the defaults or --config have it.
SETTINGS = {
    "file": "files",
    "total_iteration": "total_iteration",
    "max_frames": "max_frames",
    "eval_freq": "eval_freq",
    "save_freq": "save_freq",
    "lambda_rd": "lambda_rd",
    "state": "state",
    "reward": "reward",
    "action": "action",
    "weights": "weights",
    "target_kbps": "target_kbps",
    "normalise": "normalise",
    "backend": "encoder.backend",
    "algorithm": "learner.algorithm",
    "learning_rate": "learner.learning_rate",
    "batch_size": "learner.batch_size",
    "n_steps": "learner.n_steps",
}
STAGE = "superblock"
LINES = 20  # of progress, where there is no terminal to draw a bar on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", nargs="+", metavar="CLIP", help="clip to learn on; several are learned on together")
    add("--output-dir", default="runs", metavar="FOLDER", help="where runs are kept (default runs)")
    add("--algorithm", choices=("ppo", "dqn"), help="how to learn (default ppo)")
    add("--total-iteration", type=int, metavar="N", help="how often the clip is played in all (default 50)")
    add("--learning-rate", type=float, metavar="R", help="default 3e-4")
    add("--batch-size", type=int, metavar="N", help="default 64")
    add("--n-steps", type=int, metavar="N", help="frames per update of PPO; -1, the default, is the clip's length")
    add("--lambda-rd", type=float, metavar="L", help="weight of bytes in the reward `rd` (default 0.1)")
    add("--max-frames", type=int, metavar="N", help="frames of the clip to use (default 100)")
    add("--eval-freq", type=int, metavar="N", help="frames between evaluations (default 5000)")
    add("--save-freq", type=int, metavar="N", help="frames between checkpoints (default 10000)")
    add(
        "--state",
        metavar="NAME",
        help="what the agent sees: naive, features, feedback, summary, or package.module:Class",
    )
    add("--reward", metavar="NAME", help="psnr_gain, rd, ssim, weighted, or package.module:function")
    add("--weights", metavar="NAME", help="what the reward `weighted` cares about: moving, centre, detail")
    add("--action", choices=("map", "features"), help="an offset per superblock, or weights of features (default map)")
    add("--target-kbps", type=float, metavar="N", help="hold this bitrate by moving the frames' QP")
    add("--backend", choices=("aom", "svtav1"), help="the encoder (default aom)")
    add(
        "--disable-observation-normalization",
        dest="normalise",
        action="store_const",
        const=False,
        help="leave observations as they are",
    )
    options.add_seed(parser)
    options.add_settings(parser)
    add("--resume", metavar="RUN", help="continue this run; its own settings and seed hold, but for --total-iteration")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> int:
    from reelrl.agents.ppo import use_threads
    from reelrl.agents.training import Interrupted
    from reelrl.cli.main import DONE, INTERRUPTED
    from reelrl.evaluation.superblock_training import SuperblockTrainer
    from reelrl.runs import Run

    use_threads(args.threads)
    settings, seed = _settings(args)
    trainer = SuperblockTrainer(settings, seed)
    if args.resume:
        run_folder = Run.open(args.resume)
    else:
        name = f"superblock-{settings.algorithm}"
        run_folder = Run.create(args.output_dir, settings, stage=STAGE, name=name, seed=seed, facts=trainer.facts())
    with run_folder, Progress("train", trainer.total_steps, unit="steps") as progress:
        tell = _Reporter(trainer, progress)
        trainer.attach(run_folder, tell)
        tell.start()
        _introduce(trainer, seed)
        try:
            figures = trainer.train()
        except Interrupted as stopped:
            _explain_stop(trainer, stopped.resumable)
            return INTERRUPTED
        finally:
            trainer.close()
    output.line(
        "final", f"reward {figures['eval/reward']:.3f}", f"bytes {100 * (figures['eval/bytes_ratio'] - 1):+.2f} %"
    )
    output.line("saved", run_folder.artifacts, "model, stream, baseline and monitor.csv")
    output.next_command(f"reel evaluate superblock --controllers {run_folder.folder}")
    return DONE


def _settings(args: argparse.Namespace) -> tuple[SuperblockTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl import config
    from reelrl.evaluation.superblock_training import SuperblockTraining
    from reelrl.runs import RunFolder

    if args.resume:
        folder = RunFolder(args.resume)
        if folder.stage != STAGE:
            raise ConfigError(f"{folder.folder} is a run of `reel train {folder.stage}`; resume it with that command")
        own = folder.settings(SuperblockTraining)
        more = {} if args.total_iteration is None else {"total_iteration": args.total_iteration}
        return config.merge(own, more), folder.seed
    chosen = config.named(SuperblockTraining(), args.config) if args.config else SuperblockTraining()
    return config.override(config.merge(chosen, _given(args)), args.set), args.seed


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, nested as the settings are."""
    changes: dict[str, Any] = {}
    for option, setting in SETTINGS.items():
        value = getattr(args, option)
        if value is None:
            continue
        *folders, name = setting.split(".")
        place = changes
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return changes


def _introduce(trainer: SuperblockTrainer, seed: int) -> None:
    env, facts = trainer.envs[0], trainer.facts()
    output.line("run", trainer.run.folder, f"seed {seed}", facts["encoder"], f"{trainer.total_steps} steps")
    rows, columns = env.grid
    clip = f"{env.clip.width}x{env.clip.height}, {rows} x {columns} superblocks, {trainer.frames} frames"
    output.line("clip", " ".join(trainer.settings.files), clip)
    if trainer.settings.algorithm == "dqn":
        choices = len(trainer.model.action_space.nvec)
        output.line("dqn", f"{choices} branches x 7", "DQN needs options: one head per choice, the levels of an offset")
    if trainer.steps_done:
        output.line("resume", f"step {trainer.steps_done}")


class _Reporter:
    """Tells a person how the training goes: on a terminal by the bar, elsewhere by some lines."""

    def __init__(self, trainer: SuperblockTrainer, progress: Progress) -> None:
        self.trainer, self.progress = trainer, progress
        self.first_step = 0
        self.lines = 0

    def start(self) -> None:
        """Count from where the run stands."""
        self.first_step = self.trainer.steps_done
        self.progress.total = self.trainer.total_steps - self.first_step

    def step(self, done: int) -> None:
        self.progress.update(done - self.first_step - self.progress.done)

    def episode(self, done: int, figures: dict[str, float]) -> None:
        self.progress.figures["reward"] = figures["reward"]
        lines = done * LINES // self.trainer.total_steps
        if lines == self.lines or sys.stderr.isatty():
            return
        self.lines = lines
        rate = self.progress.rate
        left_s = max(self.trainer.total_steps - done, 0) / rate if rate else None
        self._line("step", done, figures, f"{rate:.0f} steps/s   {duration(left_s)} left")

    def evaluation(self, done: int, figures: dict[str, float]) -> None:
        if done < self.trainer.total_steps:  # the last one is told at the end
            _leave_bar()
            self._line("eval", done, {name.removeprefix("eval/"): value for name, value in figures.items()})

    def interrupt(self) -> None:
        _leave_bar()
        output.line("stop", "after this rollout", "Ctrl+C again stops at once")

    def _line(self, word: str, done: int, figures: dict[str, float], *more: str) -> None:
        shown = f"reward {figures['reward']:.3f}", f"bytes {100 * (figures['bytes_ratio'] - 1):+.2f} %"
        output.line(word, f"{done} / {self.trainer.total_steps}", *shown, *more)


def _leave_bar() -> None:
    """Begin a new line where a bar is being drawn."""
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _explain_stop(trainer: SuperblockTrainer, resumable: bool) -> None:
    problems = trainer.save_interrupted()
    output.line("stopped", f"step {trainer.steps_done}", "model and last complete stream saved as interrupted_*")
    for problem in problems:
        output.line("note", problem)
    if resumable or trainer.run.checkpoints.all():
        output.next_command(f"reel train superblock --resume {trainer.run.folder}")
