"""Two sides in the same matches, pair by pair: who is ahead of whom.

match = match_of("duel")
played = play_all(match, pairs([]), episodes=10, seed=0)      # chance, sweep, fire and oracle, each against each
rows = summarise(played)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import seeding
from reelrl.act.doom.saved_teams import task_env
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.teams import OracleTeam, PlayedEpisode, TwoSides, play
from reelrl.act.marl.evaluate import CHANCE, ORACLE, make_team
from reelrl.parallel import executor
from reelrl.report import records
from reelrl.report.intervals import Interval, mean_interval
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reelrl.act.doom.env import VizDoomCoopParallelEnv
    from reelrl.act.doom.teams import Team

RULES = (CHANCE, "sweep", "fire", ORACLE)
Pair = tuple[str, str]
"""Who is side A, and who is side B."""


@dataclass(frozen=True)
class DuelTask:
    """One match of two sides; `match` has the keys of `DoomTaskConfig`."""

    match: dict[str, Any]
    pair: Pair
    seed: int
    greedy: bool = False


@dataclass(frozen=True)
class DuelRow:
    """What the matches of a pair say, for side A: by how much it is ahead, its frags and its deaths."""

    pair: Pair
    ahead: Interval
    frags: float
    deaths: float
    episodes: int

    def record(self) -> dict[str, Any]:
        figures = {"ahead": self.ahead.plain(), "frags": self.frags, "deaths": self.deaths, "episodes": self.episodes}
        return {"side A": self.pair[0], "side B": self.pair[1], **figures}


def is_two_sided(name: str) -> bool:
    """Whether a word is a scenario of ours that two sides play."""
    return hasattr(scenario.OURS.get(name), "SIDES")


def match_of(name: str) -> dict[str, Any]:
    """The match of such a scenario, as `reel train doom --scenario` plays it."""
    from reelrl.act.marl import settings

    return settings.with_scenario(settings.load(), name).task


def pairs(trained: Sequence[str], opponents: Sequence[str] = ()) -> list[Pair]:
    """Every trained team on side A, or without one every rule, against all of them and all rules and `opponents`."""
    return list(product(trained or RULES, dict.fromkeys([*RULES, *trained, *opponents])))


def play_all(
    match: Mapping[str, Any], pairs: Sequence[Pair], episodes: int, seed: int, *, greedy: bool = False, jobs: int = 1
) -> dict[Pair, list[PlayedEpisode]]:
    """Episodes of every pair, all with the same seeds."""
    seeds = [seeding.seed_for(seed, "evaluation", number) for number in range(episodes)]
    tasks = [DuelTask(dict(match), pair, each, greedy) for each in seeds for pair in pairs]
    played: dict[Pair, list[PlayedEpisode]] = {pair: [] for pair in pairs}
    with executor(jobs) as work, Progress("play", len(tasks), unit="matches") as progress:
        for task, episode in zip(tasks, work.map(play_duel, tasks, name=_name), strict=True):
            played[task.pair].append(episode)
            progress.update()
    return played


def play_duel(task: DuelTask) -> PlayedEpisode:
    """One episode in fresh engines; its figures are side A's."""
    from reelrl.agents.devices import use_device

    use_device("cpu", threads=1)
    env = task_env(task.match, sightings=ORACLE in task.pair)
    try:
        one, other = (_side(name, env, greedy=task.greedy) for name in task.pair)
        return play(env, TwoSides(one, other), task.seed)
    finally:
        env.close()


def _side(name: str, env: VizDoomCoopParallelEnv, *, greedy: bool) -> Team:
    return OracleTeam(env) if name == ORACLE else make_team(name, greedy)


def _name(task: DuelTask) -> str:
    return f"{' against '.join(task.pair)}, seed {task.seed}"


def summarise(played: Mapping[Pair, Sequence[PlayedEpisode]]) -> list[DuelRow]:
    """A row per pair."""
    rows = []
    for pair, episodes in played.items():
        returns = np.array([episode.reward for episode in episodes])
        frags, deaths = (float(np.mean([getattr(each, name) for each in episodes])) for name in ("kills", "deaths"))
        rows.append(DuelRow(pair, mean_interval(returns).of(len(returns)), frags, deaths, len(returns)))
    return rows


def write_records(
    folder: Path, played: Mapping[Pair, Sequence[PlayedEpisode]], rows: Sequence[DuelRow], facts: Mapping[str, Any]
) -> None:
    """episodes.csv: every match of every pair; summary.json: what they add up to, and how it was made."""
    matches = [
        {"side A": one, "side B": other, **asdict(episode)}
        for (one, other), episodes in played.items()
        for episode in episodes
    ]
    records.write(folder, {"episodes": matches}, {"pairs": [row.record() for row in rows]}, facts)
