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

if TYPE_CHECKING:
    import argparse


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
        settings, seed = run_folder.settings(AbrTraining), int(run_folder.meta["seed"])
    else:
        settings, seed = options.settings_from(args, AbrTraining()), args.seed
        run_folder = Run.create(args.runs, settings, stage="abr", name="abr-ppo", seed=seed)
    with run_folder, Progress("train", settings.steps, unit="steps") as progress:
        output.line("run", run_folder.folder, f"seed {seed}", f"{settings.steps} steps")
        trainer = AbrTrainer(settings, seed)

        def report(step: int, scores: dict[str, float]) -> None:
            progress.update(step - progress.done, score=scores["score"])
            shown = [f"{name} {scores[name]:.3f}" for name in ("score", "recorded", "mobile", "outages", "best")]
            output.line("step", step, *shown)

        best = trainer.train(run_folder, report)
    output.line("best", f"{best:.4f}", "QoE per chunk over the validation pools")
    output.next_command(f"reel evaluate abr {run_folder.folder} robustmpc oracle")
    return 0
