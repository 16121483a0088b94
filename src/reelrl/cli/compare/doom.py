"""Does the cross-ego term help a team to learn? Train with several weights of it, play the same matches, compare.

reel compare doom --contrastive-weight 0 1 --seeds 3 --steps 12000
reel compare doom --contrastive-weight 0 0.3 3 --set task.num_players=4 --workers 4 -o ablation.json

Weights are compared with the first one, seed by seed: equal seeds begin with equal networks and matches. Intervals are
Student's over seeds. Runs that are there are used, and unfinished ones resumed: the same command goes on where it
was stopped.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import doom as train_doom
from reelrl.errors import ConfigError
from reelrl.storage.files import check_output, write_atomic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from reelrl.act.marl.compare import TrainingTask
    from reelrl.act.marl.settings import DoomTraining


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--contrastive-weight", type=float, nargs="+", default=[0.0, 1.0], metavar="W", help="default: 0 1")
    add("--seeds", type=int, default=3, metavar="N", help="trainings per weight (default 3)")
    add("--steps", type=int, default=12_000, metavar="N", help="steps of each training (default 12000)")
    add("--episodes", type=int, default=8, metavar="N", help="matches that every team plays (default 8)")
    add("--algorithm", default="mappo", metavar="NAME", help="mappo (default) or ippo")
    train_doom.add_files(parser)
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="change one setting, as task.num_players=4")
    add("--output-dir", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs go (default runs)")
    add("-o", "--out", type=Path, metavar="FILE", help="also write the figures there (JSON)")
    options.add_workers(parser, 1, "trainings, then matches, at the same time", cluster=False)
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.marl.compare import TrainingTask, compare, play
    from reelrl.parallel import executor
    from reelrl.runs.folder import RunFolder

    weights = list(dict.fromkeys(args.contrastive_weight))
    if len(weights) < 2 or args.seeds < 2 or args.episodes < 1:
        raise ConfigError(
            f"{len(weights)} weights, {args.seeds} seeds, {args.episodes} matches: a comparison needs two weights, "
            "two seeds and a match at least"
        )
    check_output(args.out)
    keys = [(weight, seed) for seed in range(args.seed, args.seed + args.seeds) for weight in weights]
    tasks = [TrainingTask(_settings(args, weight), seed, args.output_dir) for weight, seed in keys]
    several = args.jobs != 1
    runs: dict[tuple[float, int], RunFolder] = {}
    try:
        with executor(args.jobs) as work:
            for key, path in zip(keys, work.map(partial(_trained, quiet=several), tasks, name=_name), strict=True):
                runs[key] = RunFolder(path)
                if several:
                    output.line("done", path, f"weight {key[0]:g}", f"seed {key[1]}")
    except KeyboardInterrupt:
        output.next_command(shlex.join(["reel", *sys.argv[1:]]))
        raise
    report = compare(weights, runs, play(runs, args.episodes, args.seed, args.jobs))
    report["command"] = shlex.join(["reel", *sys.argv[1:]])
    if args.out:
        write_atomic(args.out, json.dumps(report, indent=1) + "\n")
    _show(report)
    if args.json:
        output.as_json(report)


def _settings(args: argparse.Namespace, weight: float) -> DoomTraining:
    from reelrl.act.marl.settings import with_contrastive_weight, with_steps

    settings = train_doom.settings_from(args)
    if settings.task.get("sides") == 2:
        raise ConfigError(
            "task.sides is 2: teams are compared here without opponents; give 1, or use reel evaluate doom"
        )
    return with_contrastive_weight(with_steps(settings, args.steps), weight)


def _trained(task: TrainingTask, *, quiet: bool) -> Path:
    """The folder of the run with these settings and seed, trained to its end."""
    run = task.run()
    if run is not None and task.is_done(run):
        return run.folder
    # The lines of several trainings at once would be a muddle: each says only that it is done.
    with redirect_stdout(io.StringIO()) if quiet else nullcontext():
        return train_doom.train(task.settings, task.seed, root=task.root, resume=run.folder if run else None)


def _name(task: TrainingTask) -> str:
    return f"weight {task.settings.contrastive.weight:g}, seed {task.seed}"


def _show(report: dict[str, Any]) -> None:
    base = report["weights"][0]["contrastive_weight"]
    for row in report["weights"]:
        figures = [f"return {_text(row['return'])}", f"kills {row['kills']:.1f}"]
        if row["more"]:
            by_seed = " ".join(f"{more:+.2f}" for more in row["more_by_seed"])
            figures += [f"{_text(row['more'])} above {base:g}", f"by seed {by_seed}"]
        output.line("weight", f"{row['contrastive_weight']:g}", *figures)
    output.next_command(f"reel watch doom {report['runs'][-1]['run']} -o match.mp4")


def _text(interval: Sequence[float]) -> str:
    return f"{interval[0]:.2f} [{interval[1]:.2f}, {interval[2]:.2f}]"
