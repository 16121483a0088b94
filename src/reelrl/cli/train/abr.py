"""Train a bitrate controller by PPO.

reel train abr                                  the defaults, into runs/
reel train abr --seed 1 --set steps=5000000     another seed, a shorter run
reel train abr --resume runs/0007               go on where a run stopped, exactly

It learns from the recorded training traces under REELRL_DATA and from generated ones; without data, from generated
ones alone. The policy that scores best on held-out training links is kept in artifacts/policy.safetensors. Ctrl+C ends
the training after the update under way and saves; again, at once.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.train import command as training

if TYPE_CHECKING:
    from reelrl.stream.train import AbrTrainer

STAGE = "abr"
_SHOWN = ("score", "recorded", "mobile", "outages", "best")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_settings(parser)
    training.add_arguments(parser)
    parser.add_argument("--runs", dest="output_dir", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads of the learner (default 1)")


def run(args: argparse.Namespace) -> None:
    from reelrl.agents.devices import use_threads
    from reelrl.stream.train import AbrTrainer, AbrTraining

    use_threads(args.threads)
    settings, seed = training.resumed(args, STAGE, AbrTraining) or (
        options.settings_from(args, AbrTraining()),
        args.seed,
    )
    with training.in_run(STAGE, settings, seed, root=args.output_dir, resume=args.resume, name="abr-ppo") as run_folder:
        output.line("run", run_folder.folder, f"seed {seed}", f"{settings.steps} steps")
        trainer = AbrTrainer(settings, seed)
        shown = _shown(trainer)
        with training.Report(settings.steps, unit="steps") as report:

            def validated(step: int, scores: dict[str, float]) -> None:
                report.moved(step, score=scores["score"])
                report.line("step", step, *(f"{name} {scores[name]:.3f}" for name in shown))

            best = trainer.train(run_folder, validated, report.moved, report.saving(args.save_every, "update"))
    output.line("best", f"{best:.4f}", "QoE per chunk over the validation pools")
    training.conclude(args, run_folder.folder, f"reel evaluate abr {run_folder.folder} robustmpc oracle")


def _shown(trainer: AbrTrainer) -> list[str]:
    """Figures to tell; without recordings, mobile links stand in for them and say the same."""
    pools = trainer.validator.pools
    same = pools["recorded"] == pools["mobile"]
    return [name for name in _SHOWN if not (same and name == "recorded")]
