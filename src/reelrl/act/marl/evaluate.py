"""Teams in the same matches: who earns what, match by match, and what that says.

played = play_all("runs/0007", [CHANCE, SWEEP, "runs/0007"], episodes=10, seed=0)
rows = summarise(played, ["runs/0007"])
write_records(folder, played, rows, facts)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import seeding
from reelrl.act.doom.saved_teams import open_team
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.teams import BLIND_RULES, AlteredViews, BlindTeam, OracleTeam, RandomTeam, play
from reelrl.parallel import executor
from reelrl.report import records
from reelrl.report.intervals import Interval, mean_interval, paired_interval
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reelrl.act.doom.teams import PlayedEpisode, Team

CHANCE, SWEEP, ORACLE = "chance", "sweep", "oracle"
BASELINES = (CHANCE, SWEEP)
ALL_RUNS = "all runs"
BLACK, SWAPPED = ":black", ":swapped"  # behind a run: the same team with other views


def baselines_of(scenario_name: str) -> tuple[str, ...]:
    """Who is compared with trained teams there. Where one must look, every blind rule and the oracle."""
    needs_eyes = hasattr(scenario.OURS.get(scenario_name), "REWARDS")
    return (CHANCE, *BLIND_RULES, ORACLE) if needs_eyes else BASELINES


@dataclass(frozen=True)
class MatchTask:
    """One match of one team: a baseline's name, or a trained one. `match_of` is the trained one whose match it is."""

    match_of: str
    team: str
    seed: int
    greedy: bool = False


@dataclass(frozen=True)
class TeamRow:
    """What a team's matches say: mean return, kills and deaths; the return less that of chance in the same matches."""

    team: str
    returns: Interval
    kills: float
    deaths: float
    above_chance: Interval | None
    episodes: int

    def record(self) -> dict[str, Any]:
        return {
            "return": self.returns.plain(),
            "kills": self.kills,
            "deaths": self.deaths,
            "more": None if self.above_chance is None else self.above_chance.plain(),
            "episodes": self.episodes,
        }


def play_all(
    match_of: str, teams: Sequence[str], episodes: int, seed: int, *, greedy: bool = False, jobs: int = 1
) -> dict[str, list[PlayedEpisode]]:
    """Episodes of every team, all in the same matches: those that the trained team `match_of` was trained in."""
    seeds = [seeding.seed_for(seed, "evaluation", number) for number in range(episodes)]
    # Match by match, not team by team: what is broken off half-way has compared everybody on the matches it has.
    tasks = [MatchTask(match_of, team, each, greedy) for each in seeds for team in teams]
    played: dict[str, list[PlayedEpisode]] = {team: [] for team in teams}
    try:
        with executor(jobs) as work, Progress("play", len(tasks), unit="matches") as progress:
            episodes_played = work.map(play_match, tasks, name=lambda task: f"{task.team}, seed {task.seed}")
            for task, episode in zip(tasks, episodes_played, strict=True):
                played[task.team].append(episode)
                progress.update()
    finally:
        _team.cache_clear()  # a run may be trained further before this process looks at it again
    return played


def play_match(task: MatchTask) -> PlayedEpisode:
    """One episode in fresh engines."""
    from reelrl.agents.devices import use_device

    # One thread: more add up in another order, and a last bit that differs can tip a draw.
    use_device("cpu", threads=1)
    env = open_team(task.match_of).make_env(sightings=task.team == ORACLE)
    try:
        team = OracleTeam(env) if task.team == ORACLE else _team(task.team, task.greedy)
        return play(env, team, task.seed)
    finally:
        env.close()


@cache
def _team(name: str, greedy: bool) -> Team:
    """Loaded once per process: that takes longer than many a match."""
    return make_team(name, greedy)


def make_team(name: str, greedy: bool) -> Team:
    """Chance or a blind rule by its name, or a trained team, with other views if its name ends so."""
    if name == CHANCE:
        return RandomTeam()
    if name in BLIND_RULES:
        return BlindTeam(name)
    for ending in (BLACK, SWAPPED):
        if name.endswith(ending):
            return AlteredViews(make_team(name.removesuffix(ending), greedy), ending[1:])
    return open_team(name).team(greedy=greedy)


def summarise(played: Mapping[str, Sequence[PlayedEpisode]], trained: Sequence[str]) -> list[TeamRow]:
    """A row per team, and one of all `trained` ones where there are several: seeds of one training."""
    pooled = dict(played)
    if len(trained) > 1:
        pooled[ALL_RUNS] = [episode for team in trained for episode in played[team]]
    chance = _returns(played[CHANCE])
    rows = []
    for team, episodes in pooled.items():
        returns = _returns(episodes)
        # Matches differ more than teams do: each is compared with chance in the same one. All runs have them in turn.
        same_matches = np.tile(chance, len(returns) // len(chance))
        rows.append(
            TeamRow(
                team=team,
                returns=mean_interval(returns).of(len(chance)),
                kills=float(np.mean([episode.kills for episode in episodes])),
                deaths=float(np.mean([episode.deaths for episode in episodes])),
                above_chance=None if team == CHANCE else paired_interval(returns, same_matches).of(len(chance)),
                episodes=len(returns),
            )
        )
    return rows


def against_strongest_baseline(
    played: Mapping[str, Sequence[PlayedEpisode]], trained: Sequence[str]
) -> tuple[str, Interval]:
    """The blind baseline with the highest mean return, and how much more trained teams earn in the same matches."""
    blind = [name for name in (CHANCE, *BLIND_RULES) if name in played]
    strongest = max(blind, key=lambda name: _returns(played[name]).mean())
    returns = np.concatenate([_returns(played[team]) for team in trained])
    return strongest, paired_interval(returns, np.tile(_returns(played[strongest]), len(trained)))


def write_records(
    folder: Path, played: Mapping[str, Sequence[PlayedEpisode]], rows: Sequence[TeamRow], facts: Mapping[str, Any]
) -> None:
    """episodes.csv: every match of every team; summary.json: what they add up to, and how it was made."""
    matches = [{"team": team, **asdict(episode)} for team, episodes in played.items() for episode in episodes]
    records.write(folder, {"episodes": matches}, {"teams": {row.team: row.record() for row in rows}}, facts)


def _returns(episodes: Sequence[PlayedEpisode]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([episode.reward for episode in episodes])
