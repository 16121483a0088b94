"""Does the cross-ego term help a team to learn? Trainings with several weights of it, seed by seed.

    runs = {(weight, seed): RunFolder(...), ...}       # TrainingTask.run finds those that are there
    report = compare(weights, runs, play(runs, episodes=8, seed=0))

Equal seeds begin with equal networks and matches, so that a weight is compared with the first one seed by seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.act.marl.evaluate import play_all
from reelrl.act.marl.settings import DoomTraining
from reelrl.errors import ConfigError, RunError
from reelrl.report.intervals import seeds_interval
from reelrl.runs.folder import META, RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.act.doom.teams import PlayedEpisode

    Runs = Mapping[tuple[float, int], RunFolder]
    """By weight and seed."""

_TOP1 = "train/player/contrastive_top1"


@dataclass(frozen=True)
class TrainingTask:
    """One of the trainings that are compared."""

    settings: DoomTraining
    seed: int
    root: Path

    def run(self) -> RunFolder | None:
        """The run in `root` with these settings and seed, if there is one; finished or not."""
        for path in sorted(self.root.glob(f"*/{META}")):
            run = RunFolder(path.parent)
            try:
                same = run.stage == "doom" and run.seed == self.seed and run.settings(DoomTraining) == self.settings
            except (RunError, ConfigError):  # of another version, or damaged: not the one
                continue
            if same:
                return run
        return None

    def is_done(self, run: RunFolder) -> bool:
        """Whether its run has come to the end of the training."""
        last = run.checkpoints.latest()
        return last is not None and last.step >= int(self.settings.experiment["max_n_frames"])


def play(runs: Runs, episodes: int, seed: int, jobs: int = 1) -> dict[str, list[PlayedEpisode]]:
    """Episodes of every trained team, by the folder of its run, all in the same matches."""
    folders = [str(run.folder) for run in runs.values()]
    return play_all(folders[0], folders, episodes, seed, jobs=jobs)


def compare(weights: Sequence[float], runs: Runs, played: Mapping[str, Sequence[PlayedEpisode]]) -> dict[str, Any]:
    """Plain data: a row per weight, with its difference from the first, and a row per run."""
    seeds = list(dict.fromkeys(seed for _, seed in runs))
    returns = {key: [round(episode.reward, 4) for episode in played[str(run.folder)]] for key, run in runs.items()}
    by_seed = {weight: np.array([np.mean(returns[weight, seed]) for seed in seeds]) for weight in weights}
    rows = []
    for weight in weights:
        kills = [episode.kills for seed in seeds for episode in played[str(runs[weight, seed].folder)]]
        more = by_seed[weight] - by_seed[weights[0]]
        rows.append(
            {
                "contrastive_weight": weight,
                # Over seeds, not over matches: two trainings with one weight differ more than two matches of a team.
                "return": list(seeds_interval(by_seed[weight])),
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
    """How often a teammate's view was the nearest, in the last iteration that reports it."""
    reported = [line[_TOP1] for line in run.metrics() if _TOP1 in line]
    return reported[-1] if reported else None
