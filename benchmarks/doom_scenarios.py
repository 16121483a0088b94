"""What the scenarios that need eyes are worth: chance, blind rules, an oracle that knows all, one player alone.

    python benchmarks/doom_scenarios.py                                  all three, 30 episodes each
    python benchmarks/doom_scenarios.py --runs runs/0001 runs/0002 runs/0003 --episodes 40 -o teams.json

Runs of `reel train doom`, or teams' files, play in their own scenario, as they are, with black views, and with views
swapped among the players; several runs of one scenario (seeds) are taken together, with Student's 95 % interval over
runs of what they have more than the best blind rule. Every team plays its episodes one after the other in engines of
its own, with the rewards that are meant for the scenario; other intervals are bootstrap over episodes.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reelrl.act import VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.doom.saved_teams import open_team, task_env
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.teams import BLIND_RULES, AlteredViews, BlindTeam, OracleTeam, RandomTeam, Team
from reelrl.parallel import executor
from reelrl.report.intervals import Interval, mean_interval, seeds_interval

SCENARIOS = ("bystanders", "hiders", "gate")
CHANCE, ORACLE, ALONE = "chance", "oracle", "oracle, alone"
RULES = (CHANCE, *BLIND_RULES, ORACLE, ALONE)
VIEWS = ("", "black", "swapped")


@dataclass(frozen=True)
class Task:
    """Episodes of one team: a rule by name, or the folder of a run."""

    scenario: str
    team: str
    view: str
    episodes: int
    seed: int


def play(task: Task) -> list[float]:
    """The return of each episode."""
    is_run = task.team not in RULES
    players = 1 if task.team == ALONE else 2
    env = _run_env(task.team) if is_run else _env(task.scenario, players, sightings=task.team in (ORACLE, ALONE))
    try:
        team = _team(task, env)
        team.reset(task.seed)
        return [_episode(env, team, task.seed if number == 0 else None) for number in range(task.episodes)]
    finally:
        env.close()


def _episode(env: VizDoomCoopParallelEnv, team: Team, seed: int | None) -> float:
    observations, _ = env.reset(seed=seed)
    if not isinstance(team, RandomTeam):
        team.reset(0)
    total = 0.0
    while env.agents:
        observations, rewards, *_ = env.step(team.act(observations))
        total += next(iter(rewards.values()))
    return total


def _env(name: str, players: int, *, sightings: bool) -> VizDoomCoopParallelEnv:
    settings = VZCoopConfig(
        config_path=name,
        num_players=players,
        skip=4,
        screen_resolution="RES_160X120",
        observation_size=(48, 64),
        rewards=scenario.OURS[name].REWARDS,
    )
    return VizDoomCoopParallelEnv(settings, sightings=sightings)


def _run_env(folder: str) -> VizDoomCoopParallelEnv:
    task = open_team(folder).task
    return task_env({**task, "rewards": asdict(scenario.OURS[task["config_path"]].REWARDS)})


def _team(task: Task, env: VizDoomCoopParallelEnv) -> Team:
    if task.team == CHANCE:
        return RandomTeam()
    if task.team in BLIND_RULES:
        return BlindTeam(task.team)
    if task.team in (ORACLE, ALONE):
        return OracleTeam(env)
    import torch

    torch.set_num_threads(1)
    team = open_team(task.team).team()
    return AlteredViews(team, task.view) if task.view else team


def tasks_of(args: argparse.Namespace) -> list[Task]:
    tasks = [Task(name, rule, "", args.episodes, args.seed) for name in args.scenarios for rule in RULES]
    for view in VIEWS:
        for number, folder in enumerate(args.runs):
            name = open_team(folder).task["config_path"]
            tasks.append(Task(name, folder, view, args.episodes, args.seed + 1 + number))
    return tasks


def summary(tasks: list[Task], returns: list[list[float]]) -> dict[str, Any]:
    """Scenario -> team -> mean and interval; trained teams by view, and what they have more than the best blind."""
    rules: dict[str, dict[str, Interval]] = defaultdict(dict)
    trained: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for task, each in zip(tasks, returns, strict=True):
        if task.team not in RULES:
            trained[task.scenario][task.view or "own views"].append(float(np.mean(each)))
        else:
            rules[task.scenario][task.team] = mean_interval(np.array(each))
    found: dict[str, Any] = {}
    for name, rows in rules.items():
        blind = max((CHANCE, *BLIND_RULES), key=lambda rule: rows[rule].mean)
        best, oracle = rows[blind].mean, rows[ORACLE].mean
        found[name] = {"best blind": blind, "rules": {team: list(row) for team, row in rows.items()}, "trained": {}}
        for view, means in trained[name].items():
            more = np.array(means) - best
            found[name]["trained"][view] = {
                "by run": means,
                "more": list(seeds_interval(more)) if len(means) > 1 else [float(more[0])],
                "way to the oracle": float((np.mean(means) - best) / (oracle - best)),
            }
    return found


def show(found: dict[str, Any]) -> None:
    for name, each in found.items():
        print(f"\n{name}: best blind rule {each['best blind']}")
        for team, (mean, low, high) in each["rules"].items():
            print(f"  {team:14} {mean:6.2f} [{low:.2f}, {high:.2f}]")
        for view, row in each["trained"].items():
            by_run = ", ".join(f"{value:.2f}" for value in row["by run"])
            more = " ".join(f"{value:+.2f}" for value in row["more"])
            print(f"  trained, {view:10} {by_run}   more than blind {more}   {row['way to the oracle']:.0%} of the way")


def _name(task: Task) -> str:
    return f"{task.scenario}, {task.team} {task.view}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--runs", nargs="*", default=[])
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--out", help="a .json file to write as well")
    args = parser.parse_args()
    tasks = tasks_of(args)
    with executor(args.workers) as work:
        returns = []
        for task, each in zip(tasks, work.map(play, tasks, name=_name), strict=True):
            returns.append(each)
            print(f"{_name(task)}: {np.mean(each):.2f} of {len(each)} episodes", flush=True)
    found = summary(tasks, returns)
    show(found)
    if args.out:
        Path(args.out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
