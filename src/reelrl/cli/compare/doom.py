"""Does the cross-ego term help a team to learn? Train with several weights of it, play the same matches, compare.

reel compare doom --contrastive-weight 0 1 --seeds 3 --frames 12000
reel compare doom --contrastive-weight 0 0.3 3 --set task.num_players=4 -o ablation.json

Weights are compared with the first one, seed by seed: equal seeds begin with equal networks and matches. Intervals are
Student's over seeds. Runs that are there are used, and unfinished ones resumed: the same command goes on where it
was stopped.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.train import doom as train_doom
from reelrl.errors import ConfigError, RunError
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from reelrl.act.doom.teams import Episode
    from reelrl.act.marl.settings import DoomTraining
    from reelrl.runs.folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--contrastive-weight", type=float, nargs="+", default=[0.0, 1.0], metavar="W", help="default: 0 1")
    add("--seeds", type=int, default=3, metavar="N", help="trainings per weight (default 3)")
    add("--frames", type=int, default=12_000, metavar="N", help="steps of each training (default 12000)")
    add("--episodes", type=int, default=8, metavar="N", help="matches that every team plays (default 8)")
    add("--algorithm", default="mappo", metavar="NAME", help="mappo (default) or ippo")
    train_doom.add_files(parser)
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="change one setting, as task.num_players=4")
    add("--output-dir", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs are kept (default runs)")
    add("-o", "--out", type=Path, metavar="FILE", help="also write the figures there (JSON)")
    options.add_seed(parser)


def run(args: argparse.Namespace) -> None:
    weights = list(dict.fromkeys(args.contrastive_weight))
    if len(weights) < 2 or args.seeds < 2 or args.episodes < 1:
        raise ConfigError(
            f"{len(weights)} weights, {args.seeds} seeds, {args.episodes} matches: a comparison needs two weights, "
            "two seeds and a match at least"
        )
    runs: dict[tuple[float, int], RunFolder] = {}
    for seed in range(args.seed, args.seed + args.seeds):
        for weight in weights:
            try:
                runs[weight, seed] = _trained(_settings(args, weight), seed, args.output_dir)
            except KeyboardInterrupt:
                output.next_command(shlex.join(["reel", *sys.argv[1:]]))
                raise
    report = _report(weights, runs, _play(runs, args.episodes, args.seed))
    report["command"] = shlex.join(["reel", *sys.argv[1:]])
    if args.out:
        write_atomic(args.out, json.dumps(report, indent=1) + "\n")
    _tell(report)


def _settings(args: argparse.Namespace, weight: float) -> DoomTraining:
    from reelrl.act.marl.settings import with_contrastive_weight, with_frames

    return with_contrastive_weight(with_frames(train_doom.settings_from(args), args.frames), weight)


def _trained(settings: DoomTraining, seed: int, root: Path) -> RunFolder:
    """The run with these settings and seed, trained to its end."""
    from reelrl.runs.folder import RunFolder

    run = _find(settings, seed, root)
    last = None if run is None else run.checkpoints.latest()
    if run is None or last is None or last.step < settings.experiment["max_n_frames"]:
        return RunFolder(train_doom.train(settings, seed, root=root, resume=run.folder if run else None))
    return run


def _find(settings: DoomTraining, seed: int, root: Path) -> RunFolder | None:
    from reelrl.act.marl.settings import DoomTraining
    from reelrl.runs.folder import META, RunFolder

    for path in sorted(root.glob(f"*/{META}")):
        run = RunFolder(path.parent)
        try:
            same = run.stage == "doom" and run.seed == seed and run.settings(DoomTraining) == settings
        except (RunError, ConfigError):  # of another version, or damaged: not ours
            continue
        if same:
            return run
    return None


def _play(runs: dict[tuple[float, int], RunFolder], episodes: int, seed: int) -> dict[str, list[Episode]]:
    from reelrl.act.doom.teams import TrainedTeam, settings_of
    from reelrl.cli.evaluate.doom import play_all

    teams = {str(run.folder): TrainedTeam(run) for run in runs.values()}
    return play_all(settings_of(next(iter(runs.values()))), teams, episodes, seed)


def _report(
    weights: Sequence[float], runs: dict[tuple[float, int], RunFolder], played: dict[str, list[Episode]]
) -> dict[str, Any]:
    import numpy as np

    from reelrl.report.intervals import seeds_interval

    seeds = list(dict.fromkeys(seed for _, seed in runs))
    returns = {key: [round(episode.reward, 4) for episode in played[str(run.folder)]] for key, run in runs.items()}
    of_seed = {weight: np.array([np.mean(returns[weight, seed]) for seed in seeds]) for weight in weights}
    rows = []
    for weight in weights:
        kills = [episode.kills for seed in seeds for episode in played[str(runs[weight, seed].folder)]]
        more = of_seed[weight] - of_seed[weights[0]]
        rows.append(
            {
                "contrastive_weight": weight,
                "return": list(seeds_interval(of_seed[weight])),
                "more": None if weight == weights[0] else list(seeds_interval(more)),
                "more_by_seed": more.tolist(),
                "kills": float(np.mean(kills)),
                "contrastive_top1": [_last_top1(runs[weight, seed]) for seed in seeds],
            }
        )
    each = [
        {"contrastive_weight": weight, "seed": seed, "run": str(run.folder), "returns": returns[weight, seed]}
        for (weight, seed), run in runs.items()
    ]
    return {"weights": rows, "runs": each}


def _last_top1(run: RunFolder) -> float | None:
    """How often a teammate's view was the nearest, in the last iteration that tells it."""
    told = [line["train/player/contrastive_top1"] for line in run.metrics() if "train/player/contrastive_top1" in line]
    return told[-1] if told else None


def _tell(report: dict[str, Any]) -> None:
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
