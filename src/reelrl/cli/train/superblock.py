"""Train an agent that places QP offsets on the superblocks of each frame.

reel train superblock --file clip.y4m                             PPO over whole maps, into runs/
reel train superblock --file clip.y4m --algorithm dqn             branching DQN: one head of 7 offsets per superblock
reel train superblock --file *.y4m --action features --state summary
                                                                  weights of a few features, for clips of any size
reel train superblock --file clip.y4m --config av1-gym            the hyper-parameters of the older gym
reel train superblock --file *.y4m --rollout 8 --ray auto         eight episodes side by side, on a cluster
reel train superblock --resume runs/0007                          go on where a run stopped, exactly

Artifacts lie in the run's folder: baseline_output.ivf, final_ppo_model.safetensors, final_encoder_video.ivf,
monitor.csv. Ctrl+C ends the training after the rollout under way, saves it and interrupted_*; again, at once.
DQN needs options to choose among: it takes maps as they are, and the weights of features in 7 levels each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl import names
from reelrl.cli import options, output
from reelrl.cli.train import command as training

if TYPE_CHECKING:
    import argparse

    from reelrl.encode.superblock.train import SuperblockTrainer, SuperblockTraining
    from reelrl.runs.folder import Run

# Option -> setting. An option that is not given leaves its setting as the defaults or --config have it.
SETTINGS = {
    "file": "files",
    "total_iteration": "total_iteration",
    "max_frames": "max_frames",
    "eval_freq": "eval_freq",
    "save_freq": "save_freq",
    "rollout": "rollout",
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", nargs="+", metavar="CLIP", help="clip to learn on; several are learned on together")
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
        "--rollout",
        type=int,
        metavar="N",
        help="whole episodes that one policy plays before it learns from them (default 0: --n-steps, in this process)",
    )
    options.add_workers(parser, 1, "episodes of a rollout played at the same time")
    add(
        "--state",
        metavar="NAME",
        help="what the agent sees: naive, features, feedback, summary, or package.module:Class",
    )
    add("--reward", metavar="NAME", help="psnr_gain, rd, ssim, weighted, equal_rate, or package.module:function")
    add("--weights", metavar="NAME", help="what the reward `weighted` cares about: moving, centre, detail")
    add(
        "--action",
        choices=("map", "features", "map+time", "features+time"),
        help="an offset per superblock, or weights of features (default map); +time also moves whole frames",
    )
    add("--target-kbps", type=float, metavar="N", help="hold this bitrate by moving the frames' QP")
    add("--backend", choices=tuple(names.BACKENDS), help="the encoder (default aom)")
    add(
        "--disable-observation-normalization",
        dest="normalise",
        action="store_const",
        const=False,
        help="leave observations as they are",
    )
    options.add_settings(parser)
    training.add_arguments(parser, but_for="--total-iteration")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> None:
    from reelrl.agents.devices import use_threads
    from reelrl.encode.superblock.train import SuperblockTrainer

    use_threads(args.threads)
    settings, seed = _settings(args)
    if args.jobs != 1 and not settings.rollout:
        output.note("note", "--workers and --ray have no effect without --rollout", "--rollout N plays N side by side")
    # Before the run folder is made: clips or settings that cannot be right leave no run behind.
    trainer = SuperblockTrainer(settings, seed, args.jobs)
    with training.in_run(
        STAGE,
        settings,
        seed,
        root=args.output_dir,
        resume=args.resume,
        name=f"superblock-{settings.algorithm}",
        facts=trainer.facts(),
    ) as run_folder:
        try:
            figures = _learn(trainer, run_folder, seed, args.save_every)
        finally:
            trainer.close()
    output.line(
        "final", f"reward {figures['eval/reward']:.3f}", f"bytes {100 * (figures['eval/bytes_ratio'] - 1):+.2f} %"
    )
    output.line("saved", run_folder.artifacts, "model, stream, baseline and monitor.csv")
    training.conclude(args, run_folder.folder, f"reel evaluate superblock --controllers {run_folder.folder}")


def _learn(trainer: SuperblockTrainer, run_folder: Run, seed: int, save_every_s: float) -> dict[str, float]:
    with training.Report(trainer.total_steps, unit="steps") as report:
        trainer.attach(run_folder, _ReportLines(report), report.saving(save_every_s, "rollout"))
        report.begin(trainer.steps_done)
        _introduce(trainer, seed)
        try:
            return trainer.train()
        except KeyboardInterrupt:
            problems = trainer.save_interrupted()
            report.line("saved", run_folder.artifacts, "model and last complete stream as interrupted_*")
            for problem in problems:
                output.line("note", problem)
            raise


def _settings(args: argparse.Namespace) -> tuple[SuperblockTraining, int]:
    """The defaults, then --config, then the options, then --set; of a resumed run, its own."""
    from reelrl.encode.superblock.train import SuperblockTraining
    from reelrl.settings import config

    if before := training.resumed(args, STAGE, SuperblockTraining):
        more = {} if args.total_iteration is None else {"total_iteration": args.total_iteration}
        return config.merge(before[0], more), before[1]
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
        training.say_resumed(f"step {trainer.steps_done}")


class _ReportLines:
    """What the training reports, as lines and as the progress bar."""

    def __init__(self, report: training.Report) -> None:
        self.report = report

    def step(self, done: int) -> None:
        self.report.moved(done)

    def episode(self, done: int, figures: dict[str, float]) -> None:
        self.report.moved(done, reward=figures["reward"])
        if self.report.line_due():
            self._line("step", figures, f"{self.report.rate}   {self.report.left}")

    def evaluation(self, done: int, figures: dict[str, float]) -> None:
        if done < self.report.total:  # the last one is the command's last line
            self._line("eval", {name.removeprefix("eval/"): value for name, value in figures.items()})

    def _line(self, word: str, figures: dict[str, float], *more: str) -> None:
        shown = f"reward {figures['reward']:.3f}", f"bytes {100 * (figures['bytes_ratio'] - 1):+.2f} %"
        self.report.line(word, self.report.place, *shown, *more)
