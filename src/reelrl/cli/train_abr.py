"""Train a bitrate controller by PPO.

reel train abr                                  the defaults, into runs/
reel train abr --seed 1 --set steps=5000000     another seed, a shorter run
reel train abr --resume runs/0007               go on where a run stopped, exactly

It learns from the recorded training traces under REELRL_DATA and from generated ones; without data, from generated
ones alone. The policy that scores best on held-out training links is kept in artifacts/policy.safetensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.evaluation.abr_training import AbrTraining
    from reelrl.runs import Run

STAGE = "abr"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_settings(parser)
    options.add_seed(parser)
    parser.add_argument("--runs", default="runs", metavar="FOLDER", help="where runs are kept (default runs)")
    parser.add_argument("--resume", metavar="RUN", help="continue this run; its own settings and seed hold")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> int:
    from reelrl.agents.ppo import use_threads
    from reelrl.evaluation.abr_training import AbrTrainer, AbrTraining
    from reelrl.progress import Progress
    from reelrl.runs import Run

    use_threads(args.threads)
    if args.resume:
        run_folder = Run.open(args.resume)
        if run_folder.stage != STAGE:
            raise ConfigError(f"{args.resume} is a run of `reel train {run_folder.stage}`; resume it with that command")
        settings, seed = run_folder.settings(AbrTraining), run_folder.seed
    else:
        settings, seed = options.settings_from(args, AbrTraining()), args.seed
        run_folder = Run.create(args.runs, settings, stage=STAGE, name="abr-ppo", seed=seed)
    output.line("run", run_folder.folder, f"seed {seed}", f"{settings.steps} steps")
    with run_folder, Progress("train", settings.steps, unit="steps") as progress:

        def report(step: int, scores: dict[str, float]) -> None:
            progress.update(step - progress.done, score=scores["score"])
            output.line("step", step, *(f"{name} {scores[name]:.3f}" for name in shown))

        shown = ["score", "recorded", "mobile", "outages", "best"]
        try:
            trainer = AbrTrainer(settings, seed)
            pools = trainer.validator.pools
            if pools["recorded"] == pools["mobile"]:  # there are no recordings, and mobile links stand in for them
                shown.remove("recorded")
            best = trainer.train(run_folder, report, lambda step: progress.update(step - progress.done))
        except KeyboardInterrupt:
            _explain_stop(run_folder, settings)
            raise
    output.line("best", f"{best:.4f}", "QoE per chunk over the validation pools")
    output.next_command(f"reel evaluate abr {run_folder.folder} robustmpc oracle")
    return 0


def _explain_stop(run_folder: Run, settings: AbrTraining) -> None:
    """What the run has kept, and how to go on from it."""
    kept = run_folder.checkpoints.all()
    every = settings.validate_every * settings.players * settings.rollout
    what = f"checkpoint {kept[-1].name}" if kept else f"no checkpoint yet; they come every {every} steps"
    output.line("kept", run_folder.folder, what)
    output.next_command(f"reel train abr --resume {run_folder.folder}")
